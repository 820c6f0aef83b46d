"""Tokens of the train split that a run is trained without (`pretraining.forget`): padding in their
place, which nothing attends to and nothing is asked for in. All else, also each mask, is as without
holes."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from mlm.foundations.digests import file_sha256, value_sha256
from mlm.foundations.errors import MlmError, remedy
from mlm.samples.artefacts import HolesOfRun


@dataclass(frozen=True, eq=False)
class Holes:
    """(sample, begin, end) of each hole, ascending; tokens of `padding_id` replace it."""

    spans: list[tuple[int, int, int]]
    padding_id: int

    @classmethod
    def read(cls, path: str | Path, padding_id: int, manifest: str | Path) -> Self:
        """The holes that the file `path` names, in the samples of the train split's `manifest`.
        Raises MlmError if they were found in other samples."""
        found = HolesOfRun.read(path)
        if found.manifest != file_sha256(manifest):
            raise MlmError(
                f"{path}: its holes are in other samples than those of {manifest}. {remedy(path)}"
            )
        return cls(found.holes, padding_id)

    @cached_property
    def sha256(self) -> str:
        """A digest of where the holes are."""
        return value_sha256([list(span) for span in self.spans])

    @cached_property
    def _table(self) -> tuple[np.ndarray, int]:
        most = max(Counter(sample for sample, _, _ in self.spans).values(), default=0)
        return np.array(self.spans, np.uint32).reshape(-1, 3).T, most

    def within(self, index, length: int):
        """Which tokens of the samples `index` [batch], an array of NumPy or of JAX, are in a hole:
        bool [batch, length] of the same kind."""
        xp = index.__array_namespace__()
        index, (table, most) = index.astype(xp.uint32), self._table
        samples, begins, ends = map(xp.asarray, table)
        first, places = xp.searchsorted(samples, index), xp.arange(length, dtype=xp.uint32)[None]
        found = xp.zeros((len(index), length), bool)
        for number in range(most):
            hole = xp.minimum(first + number, len(samples) - 1)
            there = (first + number < len(samples)) & (samples[hole] == index)
            inside = (begins[hole][:, None] <= places) & (places < ends[hole][:, None])
            found = found | (there[:, None] & inside)
        return found

    def punched(self, batch: dict, index) -> dict:
        """A batch of `mask_batch` with the holes of its samples `index`; targets in them weigh
        0."""
        xp, pad = index.__array_namespace__(), self.padding_id
        hole = self.within(index, batch["input_ids"].shape[1])
        asked = xp.take_along_axis(hole, batch["positions"], axis=1)
        return batch | {
            "input_ids": xp.where(hole, xp.int32(pad), batch["input_ids"]),
            "attention_mask": xp.where(hole, xp.int32(0), batch["attention_mask"]),
            "labels": xp.where(asked, xp.int32(pad), batch["labels"]),
            "weights": xp.where(asked, xp.float32(0), batch["weights"]),
        }
