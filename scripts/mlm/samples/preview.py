"""A few samples as the model meets them: decoded, before and after masking."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm.foundations.artefacts import Artefact
from mlm.samples.manifests import Manifest
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.sample_order import SampleOrder
from mlm.samples.shard_reading import spread_samples
from mlm.tokenizer.pieces import texts_of


@dataclass(frozen=True)
class PreviewToken:
    """A token's text; `masked` is what the model sees in its place, None if it is not chosen."""

    text: str
    masked: str | None


@dataclass(frozen=True)
class PreviewSample:
    """Sample `index` of the split, plain and masked; number `turn`, from 1, of the first epoch."""

    index: int
    turn: int
    text: str
    masked: str
    tokens: tuple[PreviewToken, ...]


@dataclass(frozen=True)
class Preview(Artefact):
    """results/runs/{run}/preview.json: train samples as the run's training first sees them."""

    run: str
    samples: list[PreviewSample]


def preview_samples(
    manifest: Manifest,
    plan: MaskingPlan,
    order: SampleOrder,
    tokenizer: Any,
    count: int,
    root: str | Path = ".",
) -> list[PreviewSample]:
    """Return `count` samples of a split at equal distances, masked as the training with `order`
    masks them in its first epoch, without padding. Raises MlmError for damaged shards."""
    read = spread_samples(manifest, root, count)
    index, ids, mask = read.index, read.input_ids, read.attention_mask
    batch = mask_batch(ids, mask, index, plan, order.seed, epoch=0)
    hidden = np.zeros(ids.shape, bool)
    np.put_along_axis(hidden, batch["positions"], batch["weights"] > 0, axis=1)
    samples = []
    for row, turn in enumerate(order.places(index, epoch=0) + 1):
        both = [tokens[row][mask[row]].tolist() for tokens in (ids, batch["input_ids"])]
        texts = zip(*(texts_of(tokenizer, tokens) for tokens in both), hidden[row], strict=False)
        tokens = tuple(PreviewToken(text, other if h else None) for text, other, h in texts)
        text, masked = (tokenizer.decode(ids, clean_up_tokenization_spaces=False) for ids in both)
        samples.append(PreviewSample(int(index[row]), int(turn), text, masked, tokens))
    return samples
