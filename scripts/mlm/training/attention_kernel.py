"""Which kernel computes attention to whole rows on a device: XLA's or cuDNN's."""

from dataclasses import replace
from typing import Any

from mlm.config.accelerator import Accelerator
from mlm.foundations.terminal import show
from mlm.model.architecture import Architecture
from mlm.training.devices import Devices


def with_attention(
    devices: Devices, settings: Accelerator, architecture: Architecture, sequence_length: int
) -> Devices:
    """Return `devices`, with "attention" in their arithmetic if cuDNN computes it."""
    if devices.kind != "gpu":
        return devices
    reason = reason_for_xla(settings, devices.kind, architecture, sequence_length)
    card = devices.strategy.devices.flat[0]
    if not reason and not has_cudnn_attention(card):
        reason = f"cuDNN's needs an Ampere card or newer, and this is a {card.device_kind}"
    show(f"Attention by {f'XLA, since {reason}' if reason else 'cuDNN'}")
    arithmetic = devices.arithmetic if reason else devices.arithmetic | {"attention": "cudnn"}
    return replace(devices, arithmetic=arithmetic)


def reason_for_xla(
    settings: Accelerator, kind: str, architecture: Architecture, sequence_length: int
) -> str | None:
    """Return why XLA computes attention to whole rows on such a device; None if cuDNN does."""
    head, precision = architecture.width // architecture.heads, settings.precision_on(kind)
    reasons = {
        "cuDNN's needs a GPU": kind != "gpu",
        f"cuDNN's needs bfloat16, not {precision}": precision != "bfloat16",
        "cuDNN's needs attention without dropout": architecture.attention_dropout,
        f"cuDNN's needs heads of 8 to 128 in steps of 8, not {head}": head % 8 or head > 128,
        "cuDNN's needs rows of an even number of tokens": sequence_length % 2,
        "accelerator.deterministic is true": settings.deterministic,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def has_cudnn_attention(card: Any) -> bool:
    """Return whether cuDNN computes attention on `card`, JAX's of a GPU: from Ampere on."""
    return float(card.compute_capability) >= 8.0
