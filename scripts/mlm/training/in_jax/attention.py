"""Which library computes attention to whole rows: XLA, or cuDNN on a GPU."""

from dataclasses import replace

from mlm.config.accelerator import Accelerator
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import show
from mlm.model.architecture import Architecture
from mlm.training.devices import Devices
from mlm.training.run import Run

#: The widest head that cuDNN takes before the H100, and the first cards that it computes attention
#: on: Ampere, by their compute capability.
_WIDEST_HEAD, AMPERE = 128, 8.0


def attention_on(settings: Accelerator, kind: str, run: Run) -> str:
    """ "xla" or "cudnn", for a training on a device of `kind`.

    Raises MlmError where `settings` ask for cuDNN and it cannot be had.
    """
    return "xla" if _why_xla(settings, kind, run) else "cudnn"


def with_attention(devices: Devices, settings: Accelerator, run: Run) -> Devices:
    """`devices` of a training in JAX, with "attention" in their arithmetic if XLA does not compute
    it; MlmError as `attention_on`."""
    card = devices.strategy.devices.flat[0] if devices.kind == "gpu" else None
    why = _why_xla(settings, devices.kind, run, card)
    if devices.kind == "gpu":
        show(f"{run.name}: attention by {f'XLA, since {why}' if why else 'cuDNN'}")
    if why:
        return devices
    return replace(devices, arithmetic=devices.arithmetic | {"attention": "cudnn"})


def _why_xla(settings: Accelerator, kind: str, run: Run, card=None) -> str | None:
    """Why XLA computes the attention on `card`, a device of JAX if known; None if cuDNN does."""
    architecture = Architecture.of(run.model_config.to_dict())
    fault = _fault(kind, settings.precision_on(kind), architecture, run.plan.sequence_length)
    if card is not None and not has_cudnn_attention(card):
        fault = f"needs an Ampere card or a newer one, and this is a {card.device_kind}"
    if settings.attention == "cudnn" and fault:
        raise MlmError(f"accelerator.attention: cudnn {fault}; set it to auto or xla")
    if settings.attention == "xla":
        return "accelerator.attention is xla"
    if fault:
        return f"cuDNN's {fault}"
    if settings.attention == "auto" and settings.deterministic:
        return "accelerator.deterministic is true"
    return None


def has_cudnn_attention(card) -> bool:
    """Whether cuDNN can compute attention on `card`, a GPU as JAX describes it."""
    return float(card.compute_capability) >= AMPERE


def _fault(kind: str, precision: str, architecture: Architecture, length: int) -> str | None:
    """Why cuDNN cannot compute the attention, in words."""
    head = architecture.width // architecture.heads
    if kind != "gpu":
        return f"needs a GPU, and this training is on a {kind.upper()}"
    if precision != "bfloat16":
        return f"computes in bfloat16, and the products are in {precision}"
    if architecture.attention_dropout:
        return f"cannot drop, and the model drops {architecture.attention_dropout:g} of attention"
    if head % 8 or head > _WIDEST_HEAD:
        return f"takes heads up to {_WIDEST_HEAD} wide in steps of 8, and these are {head} wide"
    return "takes rows of an even number of tokens" if length % 2 else None
