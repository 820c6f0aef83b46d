"""A few samples as the model meets them: decoded, before and after masking."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from mlm.foundations.errors import MlmError, on_one_line
from mlm.samples.artefacts import Preview, PreviewSample, PreviewToken
from mlm.samples.manifests import SHARDS_REMEDY, Manifest, shard_problem
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.shuffling import SampleOrder
from mlm.samples.split_samples import joined, read_samples
from mlm.tokenizer.pieces import texts_of

FIRST_EPOCH = 0


def chosen_samples(manifest: Manifest, count: int) -> list[tuple[int, int]]:
    """(shard, place in it) of `count` samples, or of all: the first ones of each shard."""
    chosen: list[tuple[int, int]] = []
    for place in range(max((s.num_samples for s in manifest.shards), default=0)):
        long_enough = [i for i, s in enumerate(manifest.shards) if s.num_samples > place]
        wanted = min(count - len(chosen), len(long_enough))
        chosen += [(long_enough[i * len(long_enough) // wanted], place) for i in range(wanted)]
        if len(chosen) >= count:
            break
    return sorted(chosen)


def preview_samples(
    manifest: Manifest,
    plan: MaskingPlan,
    order: SampleOrder,
    tokenizer: Any,
    count: int,
    root: str | Path = ".",
) -> list[PreviewSample]:
    """`count` samples of a split, masked as the training with `order` masks them in its first
    epoch, without padding; MlmError if a shard is not what the manifest says."""
    chosen = chosen_samples(manifest, count)
    for shard in (manifest.shards[number] for number in sorted({number for number, _ in chosen})):
        if problem := shard_problem(shard, root):
            raise MlmError(f"{problem}. {SHARDS_REMEDY}")
    first = [0, *itertools.accumulate(shard.num_samples for shard in manifest.shards)]
    places = np.array([first[number] + place for number, place in chosen], np.int64)
    if not (parts := list(read_samples(manifest, root, places))):
        return []
    read = joined(parts)
    index, ids, mask = read.index, read.input_ids, read.attention_mask
    batch = mask_batch(ids, mask, index, plan, order.seed, FIRST_EPOCH)
    hidden = np.zeros(ids.shape, bool)
    np.put_along_axis(hidden, batch["positions"], batch["weights"] > 0, axis=1)
    samples = []
    for row, turn in enumerate(order.places(index, FIRST_EPOCH) + 1):
        both = [tokens[row][mask[row]].tolist() for tokens in (ids, batch["input_ids"])]
        texts = zip(*(texts_of(tokenizer, tokens) for tokens in both), hidden[row], strict=False)
        tokens = tuple(PreviewToken(text, other if h else None) for text, other, h in texts)
        decoded = [tokenizer.decode(own, clean_up_tokenization_spaces=False) for own in both]
        samples.append(PreviewSample(int(index[row]), int(turn), *decoded, tokens))
    return samples


def preview_text(previews: list[Preview]) -> str:
    """Previews for the terminal: each text, then the same masked."""
    lines = []
    for preview in previews:
        for sample in preview.samples:
            lines += [
                f"Run {preview.run}, sample {sample.index}, turn {sample.turn:,} of the first pass",
                f"  text    {on_one_line(sample.text)}",
                f"  masked  {on_one_line(sample.masked)}",
                "",
            ]
    return "\n".join(lines)
