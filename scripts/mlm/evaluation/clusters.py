"""What an interval resamples: authors that the corpus names, else groups, else samples."""

import numpy as np
import pyarrow as pa

from mlm.corpus.artefacts import CorpusSplit, EmbeddedSource
from mlm.corpus.document_groups import group_ids
from mlm.corpus.embedded_corpus import address_of
from mlm.evaluation.predictions import Positions


class Clusters:
    """The clusters of a split's text, of which `by` says what they are."""

    def __init__(self, positions: Positions, group_by: str | None, described: CorpusSplit | None):
        """Of the widest kind of which `positions` have several; `group_by` names the groups of the
        shards, `described` is the split's text, if known."""
        self._author_of, source = None, described and described.source
        groups = np.unique(positions.group)
        if isinstance(source, EmbeddedSource):
            ids = group_ids(pa.array(list(map(address_of, source.speeches))))
            numbers = np.unique(source.presidents, return_inverse=True)[1]
            self._author_of = dict(zip(ids.tolist(), numbers.tolist(), strict=True))
            if len(np.unique(self.of_groups(groups))) > 1:
                self.by, self.of_predictions = "president", self.of_groups(positions.group)
                return
        self._author_of, self.by, self.of_predictions = None, "sample", positions.sample
        if group_by is not None and len(groups) > 1:
            self.by, self.of_predictions = group_by, positions.group

    def of_groups(self, groups: np.ndarray) -> np.ndarray:
        """The cluster of each of `groups`, by their ids."""
        if self._author_of is None:
            return groups
        known, index = np.unique(groups, return_inverse=True)
        return np.array([self._author_of[group] for group in known.tolist()])[index]
