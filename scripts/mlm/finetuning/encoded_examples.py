"""Texts and labels as the arrays that the network reads, and its outputs as predictions."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mlm.finetuning.artefacts import Example, texts_of
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError
from mlm.model.model_files import Checkpoint
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pretrained import load_pretrained

#: The tag that is predicted for a word that the model does not see: none that is right.
NO_TAG = "[CUT]"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as `arrays`: `input_ids` and `attention_mask`, int32 [texts, length], and what goes
    with them. `pieces` are, of each sentence with tags, the positions of the first pieces of its
    words, 0 of a word that is cut or has none; `truncated` texts had more than `most` tokens. The
    labels of a regression are its targets minus `mean`, divided by `deviation`."""

    arrays: Arrays
    pieces: list[list[int]]
    truncated: int
    most: int | None
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, texts: Sequence[str], encoder: Encoder, most: int | None, has_tags: bool) -> Self:
        """Encode `texts` with at most `most` tokens, the last one [SEP]; if the text `has_tags`,
        tabs separate its words."""
        if has_tags:
            sentences = (text.split("\t") if text else [] for text in texts)
            pairs = (first_pieces(words, encoder, most) for words in sentences)
            encoded, pieces = map(list, zip(*pairs, strict=True))
        else:
            encoded, pieces = encoder.encode(texts), []
        length = most or max(map(len, encoded))
        rows = [ids if len(ids) <= length else [*ids[: length - 1], ids[-1]] for ids in encoded]
        truncated = sum(len(row) < len(ids) for row, ids in zip(rows, encoded, strict=True))
        lengths = np.array([len(row) for row in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, encoder.special_ids.pad, np.int32)
        ids[mask] = np.concatenate(rows)
        arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int32)}
        return cls(arrays, pieces, truncated, most)

    def labelled(self, examples: Sequence[Example], classes: list[str], train: np.ndarray) -> Self:
        """The texts with the `labels` of `examples`: numbers of `classes`, int32, or values,
        float32, scaled by the rows `train`; and `weights`: [examples], or at the first pieces of
        words [examples, length]."""
        mean, deviation = 0.0, 1.0
        if not self.pieces:
            labels = [classes.index(e.target) if classes else float(e.target) for e in examples]
            if not classes:
                known = [labels[i] for i in train]
                mean, deviation = statistics.fmean(known), statistics.pstdev(known) or 1.0
                labels = [(value - mean) / deviation for value in labels]
            labels = np.array(labels, np.int32 if classes else np.float32)
            weights = np.ones(len(labels), np.float32)
        else:
            labels = np.zeros_like(self.arrays["input_ids"])
            weights = np.zeros(labels.shape, np.float32)
            for i, example in enumerate(examples):
                for place, tag in zip(self.pieces[i], example.target.split(" "), strict=True):
                    if place:
                        labels[i, place], weights[i, place] = classes.index(tag), 1
        arrays = self.arrays | {"labels": labels, "weights": weights}
        return replace(self, arrays=arrays, mean=mean, deviation=deviation)

    def predictions(
        self, outputs: np.ndarray, classes: list[str], rows: Sequence[int] | None = None
    ) -> list[str]:
        """Predictions as text, by the `outputs` of all texts, or of `rows` of them."""
        if not self.pieces:
            return texts_of(outputs * np.float64(self.deviation) + self.mean, classes)
        pieces = self.pieces if rows is None else [self.pieces[i] for i in rows]
        return [
            " ".join(classes[int(row[place])] if place else NO_TAG for place in places)
            for row, places in zip(outputs.argmax(axis=-1), pieces, strict=True)
        ]


def first_pieces(
    words: Sequence[str], encoder: Encoder, most: int | None
) -> tuple[list[int], list[int]]:
    """The ids of a sentence, and the position of the first piece of each word; 0 for a word without
    any, or whose first is cut if at most `most` ids are read, the last one [SEP]."""
    ids, offsets = encoder.encode_with_offsets(" ".join(words))
    read = min(len(ids), most or len(ids)) - 1
    places, piece, start = [], 1, 0
    for word in words:
        while piece < read and offsets[piece][1] <= start:
            piece += 1
        begins = piece < read and offsets[piece][0] < start + len(word)
        places.append(piece if begins else 0)
        start += len(word) + 1
    return ids, places


def encoder_of(checkpoint: Checkpoint, published: bool) -> tuple[Encoder, int | None]:
    """Its tokenizer, and the longest input it was made for, or None; MlmError if it is unfit."""
    if not published:
        settings = read_json(checkpoint.tokenizer.with_name("tokenizer_config.json"))
        return Encoder.load(checkpoint.tokenizer), settings.get("model_max_length")
    directory = str(checkpoint.tokenizer.parent)
    content, special, longest = load_pretrained(directory, None, "finetune.also")
    encoder, rows = Encoder(content, special), checkpoint.fields.get("vocab_size", 0)
    if encoder.vocabulary_size > rows:
        raise MlmError(
            f"finetune.also: {checkpoint.place} has {rows:,} word embeddings (vocab_size), but its "
            f"tokenizer.json has {encoder.vocabulary_size:,} ids. Both must be of one model"
        )
    return encoder, longest
