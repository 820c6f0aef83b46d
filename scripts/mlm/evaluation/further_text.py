"""Further held-out text (`evaluation.also`): read as files of the corpus, packed and masked as the
test split is."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlm.config.evaluation import Evaluation
from mlm.config.tokenizer import Shards
from mlm.corpus.document_groups import group_ids
from mlm.corpus.filters import prepared
from mlm.corpus.parts import whole
from mlm.corpus.sources import open_source
from mlm.corpus.spooling import text_array
from mlm.evaluation.artefacts import Difference, FurtherText
from mlm.evaluation.bits_by_group import add_documents
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.metrics import bits_per_character, paired_difference, summary_of
from mlm.evaluation.predictions import Scored
from mlm.evaluation.scoring import Scorer
from mlm.foundations.errors import MlmError
from mlm.samples.packing import write_packed
from mlm.samples.split_samples import Samples, evenly_spread, joined
from mlm.tokenizer.encoding import Encoder


def on_further_texts(
    texts: Mapping,
    model: Path,
    section: Evaluation,
    scorer: Scorer,
    before: Scorer | None,
    mask_id: int,
    resampling: Resampling,
) -> dict[str, FurtherText] | None:
    """The figures of the model in the directory `model`, and `before` its first step, on each of
    `texts`, of `further_texts`: on at most `max_tokens`, at equal distances. None without any;
    MlmError for files that cannot be read, and for text too short to be asked anything."""
    found, packing = {}, Shards(sequence_length=scorer.length)
    encoder = Encoder.load(model / "tokenizer.json")
    most = max(1, section.max_tokens // scorer.length)
    for name, paths in texts["files"].items():
        read, kept = _Documents(paths, texts["reading"]), _Kept()
        tokens = write_packed(packing, encoder, read, range(0), kept)[0] - 2 * read.documents
        samples = kept.samples(most) if read.documents else ()
        scored = scorer.score(samples, name) if len(samples) else None
        if scored is None or not len(scored.where_hidden(mask_id).positions):
            raise MlmError(
                f"evaluation.also.{name}: {read.documents} documents with {read.characters} "
                f"characters are too few to predict anything in; name more text"
            )
        density, begun = tokens / read.characters, before and before.score(samples, name)
        found[name] = FurtherText(
            documents=read.documents,
            characters=read.characters,
            tokens=tokens,
            sha256=read.digest.hexdigest(),
            model=summary_of(scored, mask_id, density, resampling),
            before=begun and summary_of(begun, mask_id, density, resampling),
            change=begun and _change(scored, begun, mask_id, density, resampling),
        )
    return found or None


def _change(
    after: Scored, before: Scored, mask_id: int, density: float, resampling: Resampling
) -> Difference:
    """In bits per character, the same groups drawn for both; `density` is in tokens a character."""
    after, before = (scored.where_hidden(mask_id) for scored in (after, before))
    bits = (bits_per_character(scored.scores.loss, density) for scored in (after, before))
    return paired_difference(after.positions.unit, *bits, resampling)


class _Documents:
    """The documents of files that are not empty, counted while `write_packed` reads them."""

    def __init__(self, paths: Sequence[str], reading: Mapping):
        self._stream = open_source(reading, whole({"test": paths})).streams["test"]
        self._normalisation = reading["normalisation"]
        self.documents = self.characters = 0
        self.digest = hashlib.sha256()

    def batches(self, columns: Sequence[str], size: int, _) -> Iterator[pa.RecordBatch]:
        read = ((prepared(text, self._normalisation).text, group) for text, group in self._stream())
        read = (one for one in read if one[0].strip())
        while part := list(islice(read, size)):
            texts, names = zip(*part, strict=True)
            own = enumerate(names, self.documents)
            names = [f"document {n}" if name is None else name for n, name in own]
            arrays = [text_array([x.encode("utf-8") for x in of]) for of in (texts, names)]
            add_documents(self.digest, group_ids(arrays[1]), texts)
            self.documents += len(texts)
            self.characters += sum(map(len, texts))
            yield pa.record_batch(arrays, names=list(columns))


class _Kept:
    """Samples as `write_packed` gives them, in memory: 13 bytes a token."""

    def __init__(self):
        self._parts: list[Samples] = []

    def write(self, ids: np.ndarray, real: np.ndarray, groups: np.ndarray) -> None:
        mask = np.arange(ids.shape[1]) < real[:, None]
        self._parts.append(Samples(real, ids.astype(np.int32), mask, groups))

    def samples(self, most: int) -> Samples:
        found = joined(self._parts)
        return replace(found, index=np.arange(len(found)))[evenly_spread(len(found), most)]
