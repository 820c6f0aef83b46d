"""Bits per character by group (a speech, an author) and by source of a mix: where a model fails."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from mlm.config.corpus import UNGROUPED
from mlm.corpus.artefacts import CorpusSplit, MixSource
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.corpus.groups_and_splits import group_ids
from mlm.evaluation.artefacts import BitsByGroup, BitsOfGroup
from mlm.evaluation.hidden_sets import Positions
from mlm.evaluation.intervals import Estimate, bits_of, mean_of, sums_by_cluster
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import SHARDS_REMEDY, Manifest
from mlm.samples.shard_reading import read_samples

#: Groups that evaluation.json holds at most: half of them the best, half the worst.
MOST_GROUPS = 30
#: Documents read at a time, and characters of a document that name its group.
_BATCH, _BEGINNING = 1000, 40


@dataclass(frozen=True)
class TextOfGroups:
    """The groups of a split in the order of their `ids` [groups]: their text's `tokens`, without
    the two around each document, and `characters`, and the number of their `first` document; the
    split as it is `described`, its `documents`, and the `sha256` of these and their groups, which
    tokenizers and packages do not change."""

    ids: np.ndarray
    tokens: np.ndarray
    characters: np.ndarray
    first: np.ndarray
    described: CorpusSplit
    documents: SplitDocuments
    sha256: str

    @classmethod
    def read(cls, record: Path, manifest: Manifest, root: str | Path) -> Self:
        """Those of the split of the corpus's `record`, with the shards of `manifest` below `root`.
        Raises MlmError if they are not of that text."""
        documents = SplitDocuments.described(record)
        if documents.sha256() != manifest.corpus_sha256:
            raise MlmError(
                f"{documents.named}: is not the text that the {manifest.split} shards were made "
                f"from. {SHARDS_REMEDY}"
            )
        groups, characters, digest = [], [], hashlib.sha256()
        for rows in documents.batches(["text", "group"], _BATCH):
            groups += group_ids(rows.column("group")).tolist()
            texts = rows.column("text").to_pylist()
            for group, text in zip(groups[-len(texts) :], texts, strict=True):
                encoded = text.encode("utf-8")
                digest.update(b"%d %d " % (group, len(encoded)) + encoded)
                characters.append(len(text))
        ids, first, index, count = np.unique(np.array(groups, np.int64), True, True, True)
        tokens = -2 * count
        for samples in read_samples(manifest, root):
            held, number = np.unique(samples.group[samples.attention_mask], return_counts=True)
            tokens[np.searchsorted(ids, held)] += number
        of_groups = np.bincount(index, characters).astype(np.int64)
        described = CorpusSplit.read(record)
        return cls(ids, tokens, of_groups, first, described, documents, digest.hexdigest())

    def of(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and characters of the `groups`, by their ids."""
        places = np.searchsorted(self.ids, groups)
        return self.tokens[places], self.characters[places]

    def sources(self) -> Iterator[tuple[str, np.ndarray]]:
        """The name of each source of a mix, and the ids of its groups."""
        if isinstance(self.described.source, MixSource):
            mixed = self.described.source.sources
            # A held-out split has its sources one after the other.
            ends = np.cumsum([source.documents for source in mixed])
            source = np.searchsorted(ends, self.first, side="right")
            for number, one in enumerate(mixed):
                yield one.name, self.ids[source == number]

    def names(self, groups: np.ndarray) -> list[str]:
        """The names of `groups`, by their ids; of documents, their beginnings."""
        names = []
        for number in self.first[np.searchsorted(self.ids, groups)].tolist():
            (rows,) = self.documents.batches(["text", "group"], _BATCH, range(number, number + 1))
            name = rows.column("group")[0].as_py()
            if self.described.group_by == UNGROUPED:
                text = rows.column("text")[0].as_py()
                name = f"{name}: {' '.join(text[:_BEGINNING].split())}"
            names.append(name)
        return names


def bits_by_group(
    positions: Positions, loss: np.ndarray, texts: TextOfGroups
) -> BitsByGroup | None:
    """Bits per character by `loss` at `positions`: of at most MOST_GROUPS groups, the worst first,
    and of the sources of a mix; None if there is one group. With more groups, those with less than
    half of the mean number of predictions are left out."""
    groups = np.unique(positions.group)
    if len(groups) == 1:
        return None
    totals, counts = sums_by_cluster(positions.group, loss).T
    table = np.column_stack([totals, *texts.of(groups), counts])
    bits = bits_of(table)
    ranked, half = np.argsort(-bits, kind="stable"), MOST_GROUPS // 2
    if len(ranked) > MOST_GROUPS:
        # So that no stub wins by a lucky guess.
        ranked = ranked[counts[ranked] >= counts.mean() / 2]
    shown = np.r_[ranked[:half], ranked[half:][-half:]]

    def of(name: str, members: np.ndarray) -> BitsOfGroup:
        chosen, rows = np.isin(positions.group, members), table[np.isin(groups, members)]
        part, bits = positions[chosen], Estimate.of(rows, bits_of)
        if len(members) == 1:
            bits = mean_of(part.sample, loss[chosen]) * (rows[0, 1] / rows[0, 2] / math.log(2))
        return BitsOfGroup(
            name=name,
            bits_per_character=bits.value,
            bits_per_character_interval=bits.interval,
            num_predictions=len(part),
            num_samples=len(np.unique(part.sample)),
            num_groups=len(members),
            characters=int(rows[:, 2].sum()),
        )

    names = texts.names(groups[shown])
    sources = [
        (name, members)
        for name, ids in texts.sources()
        if len(members := np.intersect1d(ids, groups))
    ]
    return BitsByGroup(
        num_groups=len(groups),
        groups=[of(name, groups[[i]]) for name, i in zip(names, shown, strict=True)],
        sources=[of(*source) for source in sources],
    )
