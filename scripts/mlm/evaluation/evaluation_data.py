"""What an evaluation reads from the shards: the test split, and counts of train."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.evaluation.predictions import Positions, positions_of
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, check_shards
from mlm.samples.split_samples import (
    Samples,
    evenly_spread,
    joined,
    read_samples,
    spread_samples,
)
from mlm.samples.token_counts import TokenCounts, count_tokens, counted_samples

_REMAKE = (
    "To have the shards made again: rm -r results/shards results/manifests, then the same "
    "snakemake command."
)
#: Tokens of validation that the weights of the baselines are fitted on.
_FITTED_TOKENS = 20_000


@dataclass(frozen=True)
class EvaluationData:
    """Samples of test and of train (None if none was asked for), the `counts` of train, and
    `fitted`, the positions of validation's text that baselines are fitted on."""

    test: Samples
    train: Samples | None
    counts: TokenCounts
    fitted: Positions
    sequence_length: int


def read_evaluation_data(
    manifests: dict[str, Manifest],
    root: str | Path,
    max_tokens: int,
    train_samples: int | None,
    vocabulary: int,
    special_ids: list[int],
) -> EvaluationData:
    """Read the splits, checked against their manifests: at most `max_tokens` of test (but at least
    one sample), `train_samples` of train (None: as many as of test). Raises MlmError for shards
    that do not belong together or to a `vocabulary` of so many ids, and an empty split."""
    for manifest in manifests.values():
        check_shards(manifest, root)
    test = spread_samples(manifests["test"], root, evaluated(manifests["test"], max_tokens))
    if not len(test):
        raise MlmError(
            "The test split has no samples, so that there is nothing to evaluate. Raise "
            "corpus.held_out.test, or give the split more text."
        )
    _check_ids(manifests["test"], test.input_ids, vocabulary)
    train = manifests["train"]
    counted = counted_samples(train.num_samples, train.num_tokens)
    chosen = evenly_spread(train.num_samples, len(test) if train_samples is None else train_samples)
    gathered: list[Samples] = []

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        wanted = np.union1d(np.arange(0, train.num_samples, counted.step), chosen)
        for samples in read_samples(train, root, wanted):
            _check_ids(train, samples.input_ids, vocabulary)
            gathered.append(samples[np.isin(samples.index, chosen)])
            kept = samples[samples.index % counted.step == 0]
            yield kept.input_ids, kept.attention_mask

    counts = count_tokens(batches(), vocabulary, special_ids, two=True)
    return EvaluationData(
        test=test,
        train=joined(gathered) if len(chosen) else None,
        counts=counts,
        fitted=_text_positions(manifests["validation"], root, special_ids),
        sequence_length=train.sequence_length,
    )


def evaluated(manifest: Manifest, max_tokens: int) -> int:
    """How many samples of the test split are evaluated, at equal distances."""
    return min(manifest.num_samples, max(1, max_tokens // manifest.sequence_length))


def tokens_per_character(manifest: Manifest, characters: int | None) -> float | None:
    """Text tokens of a split, without the two around each document, over the `characters` of its
    text; None if these are not known, or there are none."""
    frame = 2 * manifest.documents if manifest.documents is not None else 0
    tokens = manifest.num_tokens - frame
    return tokens / characters if characters and tokens else None


def _check_ids(manifest: Manifest, ids: np.ndarray, vocabulary: int) -> None:
    largest = int(ids.max(initial=0))
    if largest >= vocabulary:
        raise MlmError(
            f"The {manifest.split} shards hold the token id {largest}; the model's tokenizer has "
            f"ids up to {vocabulary - 1}. They do not belong together. {_REMAKE}"
        )


def _text_positions(manifest: Manifest, root, special_ids: list[int]) -> Positions:
    """Every text token of samples spread over the split, each with its neighbours."""
    samples = spread_samples(manifest, root, _FITTED_TOKENS // manifest.sequence_length + 1)
    ids, mask = samples.input_ids, samples.attention_mask
    positions = positions_of(ids, mask, ids, mask & ~np.isin(ids, special_ids))
    if not len(positions):
        raise MlmError(
            f"The validation split has no token of text in {len(samples)} samples; the baselines "
            "are fitted on it. Raise corpus.held_out.validation, or give the split more text."
        )
    return positions
