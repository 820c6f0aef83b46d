"""Which library computes attention to whole rows: XLA, or cuDNN on a GPU."""

from dataclasses import replace

from mlm.config.accelerator import Accelerator
from mlm.foundations.terminal import show
from mlm.model.architecture import Architecture
from mlm.training.devices import Devices
from mlm.training.run import Run

#: The widest head that cuDNN takes before the H100, and the first cards that it computes attention
#: on: Ampere, by their compute capability.
_WIDEST_HEAD, AMPERE = 128, 8.0


def attention_on(settings: Accelerator, kind: str, run: Run) -> str:
    """ "xla" or "cudnn", for a training on a device of `kind`; a GPU counts as Ampere."""
    return "xla" if _why_xla(settings, kind, run) else "cudnn"


def with_attention(devices: Devices, settings: Accelerator, run: Run) -> Devices:
    """`devices` of a training in JAX, with "attention" in their arithmetic if XLA does not compute
    it."""
    why = _why_xla(settings, devices.kind, run)
    if devices.kind == "gpu":
        card = devices.strategy.devices.flat[0]
        if not why and not has_cudnn_attention(card):
            why = f"cuDNN's needs an Ampere card or a newer one, and this is a {card.device_kind}"
        show(f"{run.name}: attention by {f'XLA, since {why}' if why else 'cuDNN'}")
    if why:
        return devices
    return replace(devices, arithmetic=devices.arithmetic | {"attention": "cudnn"})


def has_cudnn_attention(card) -> bool:
    """Whether cuDNN can compute attention on `card`, a GPU as JAX describes it."""
    return float(card.compute_capability) >= AMPERE


def _why_xla(settings: Accelerator, kind: str, run: Run) -> str | None:
    """Why XLA computes the attention, in words; None if cuDNN does."""
    architecture = Architecture.of(run.model_config.to_dict())
    head, precision = architecture.width // architecture.heads, settings.precision_on(kind)
    if kind != "gpu":
        return f"cuDNN's needs a GPU, and this training is on a {kind.upper()}"
    if precision != "bfloat16":
        return f"cuDNN's computes in bfloat16, and the products are in {precision}"
    if share := architecture.attention_dropout:
        return f"cuDNN's cannot drop, and the model drops {share:g} of attention"
    if head % 8 or head > _WIDEST_HEAD:
        return f"cuDNN's takes heads up to {_WIDEST_HEAD} wide in steps of 8, not {head} wide"
    if run.plan.sequence_length % 2:
        return "cuDNN's takes rows of an even number of tokens"
    return "accelerator.deterministic is true" if settings.deterministic else None
