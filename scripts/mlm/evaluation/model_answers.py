"""A model's answers at the hidden positions of samples.

Logits are computed at the hidden positions only. Every batch has the same shape: the last is
padded, and the padding's answers are dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlm.config.evaluation import Evaluation
from mlm.evaluation.hidden_sets import (
    Positions,
    Questions,
    Scores,
    number_of_sets,
    positions_of,
    set_numbers,
)
from mlm.foundations.terminal import Progress
from mlm.samples.masking import VALIDATION_MASKING, MaskingPlan, mask_batch
from mlm.samples.shard_reading import Samples, joined

#: Logits of one batch: 2^26 float32 values are 256 MB, and the softmax needs a few copies.
_LARGEST_LOGITS = 2**26
#: The arrays of a masked batch that the model needs.
MODEL_INPUTS = ("input_ids", "attention_mask", "positions", "labels")
Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class AnsweringModel:
    """An exported model that is open on its devices. `answers` takes `input_ids` and
    `attention_mask` [batch, sequence], masked already, `positions` and `labels` [batch, slots],
    int32, of rows that `replicas` divide. It gives, [batch, slots] each, the label's
    `log_probability` in nats and `rank` from 1."""

    answers: Callable[[Batch], Batch]
    replicas: int
    vocabulary: int


def evaluation_slots(share: float, length: int) -> int:
    """Predictions in a row of `length` tokens of which about `share` are hidden: enough for a set,
    and for the masks as papers have them."""
    share = max(1 / number_of_sets(share), VALIDATION_MASKING.mlm_probability)
    return max(1, int(np.ceil(share * length - 1e-9)))


class Scorer:
    """Scores an exported model on samples, on whatever devices it is open on."""

    def __init__(self, model: AnsweringModel, section: Evaluation, tokenizer, length: int):
        """Samples are of `length` tokens of `tokenizer`, transformers' fast one. The section's
        `batch_size` is that of all replicas together; it changes figures by rounding only."""
        self._model, self._seed = model, section.seed
        self._batch_size, self.length = section.batch_size, length
        self.tokenizer, self.vocabulary = tokenizer, model.vocabulary
        self.special_ids = sorted(set(tokenizer.all_special_ids))
        self.sets = number_of_sets(section.mlm_probability)
        self._slots = evaluation_slots(section.mlm_probability, length)

    def score(self, questions: Questions, label: str) -> tuple[Positions, Scores]:
        """Score the tokens of each question's set, hidden behind the mask token."""
        samples, rows, sets = questions.samples, questions.rows, questions.sets
        numbers = set_numbers(samples, self.special_ids, self.sets, self._seed)
        positions: list[Positions] = []

        def batches(batch: slice) -> Batch:
            part, hidden = samples[rows[batch]], numbers[rows[batch]] == sets[batch, None]
            shown = np.where(hidden, np.int32(self.tokenizer.mask_token_id), part.input_ids)
            ids, attention = part.input_ids, part.attention_mask
            positions.append(positions_of(ids, attention, shown, hidden, part.index, part.group))
            places = np.argsort(~hidden, axis=1, kind="stable")[:, : self._slots].astype(np.int32)
            return {
                "input_ids": shown,
                "attention_mask": attention.astype(np.int32),
                "positions": places,
                "labels": np.take_along_axis(ids, places, axis=1),
                "weights": np.take_along_axis(hidden, places, axis=1),
            }

        scores = joined(list(self._answered(len(rows), batches, self._slots, label)))
        return joined(positions), scores

    def score_as_in_papers(self, samples: Samples) -> Scores:
        """Score one draw of 15 % of the tokens of each sample, replaced 80/10/10."""
        plan = MaskingPlan(
            mlm_probability=VALIDATION_MASKING.mlm_probability,
            mask_token=VALIDATION_MASKING.mask_token,
            random_token=VALIDATION_MASKING.random_token,
            mask_id=self.tokenizer.mask_token_id,
            special_ids=tuple(self.special_ids),
            vocabulary_size=self.vocabulary,
            sequence_length=self.length,
            fixed_slots=self._slots,
        )

        def batches(batch: slice) -> Batch:
            part = samples[batch]
            return mask_batch(part.input_ids, part.attention_mask, part.index, plan, self._seed)

        return joined(list(self._answered(len(samples), batches, self._slots)))

    def unknown_share(self, samples: Samples) -> float:
        """The share of the unknown token among the text tokens of `samples`."""
        ids, unknown = samples.input_ids[samples.attention_mask], self.tokenizer.unk_token_id
        count = np.sum(ids == unknown) if unknown is not None else 0
        return float(count / max(count + np.sum(~np.isin(ids, self.special_ids)), 1))

    def log_probabilities(self, question: Batch) -> np.ndarray:
        """Log-probabilities in nats of one label a row, float64 [rows], of a `question` that is
        masked already: the arrays of `MODEL_INPUTS`. Its rows may be shorter than a sample, and are
        then more in a batch."""
        count, length = question["input_ids"].shape
        if not count:
            return np.zeros(0)

        def batches(batch: slice) -> Batch:
            rows = {name: array[batch] for name, array in question.items()}
            return rows | {"weights": np.ones(rows["labels"].shape)}

        # Powers of two: few shapes to compile.
        at_once = min(1 << (count - 1).bit_length(), self._batch_size * self.length // length)
        answered = self._answered(count, batches, slots=1, at_once=at_once)
        return joined(list(answered)).log_probability

    def _answered(
        self,
        rows: int,
        batches: Callable[[slice], Batch],
        slots: int,
        label: str = "",
        at_once: int | None = None,
    ) -> Iterator[Scores]:
        """Yield the answers at the slots in use of the `batches` of all `rows`, in order, at most
        `at_once` for all replicas; a progress line if it has a `label`."""
        replicas, at_once = self._model.replicas, at_once or min(rows, self._batch_size)
        # Fewer if logits [rows, slots, vocabulary] would not fit in memory.
        largest = max(1, _LARGEST_LOGITS // (slots * self._model.vocabulary))
        size = max(1, min(-(-at_once // replicas), largest)) * replicas
        progress = None
        for start in range(0, rows, size):
            batch = slice(start, min(start + size, rows))
            count, question = batch.stop - batch.start, batches(batch)
            # Padded with copies of its first row.
            filled = np.r_[np.arange(count), np.zeros(size - count, int)]
            answers = self._model.answers({name: question[name][filled] for name in MODEL_INPUTS})
            in_use = question["weights"] > 0
            found = {name: value[:count][in_use] for name, value in answers.items()}
            yield Scores(
                log_probability=found["log_probability"].astype(np.float64),
                correct=found["rank"] == 1,
                rank=found["rank"],
            )
            # Not timed from the start: the first batch includes compilation.
            progress = progress or Progress(label, rows, "samples")
            if label:
                progress.to(batch.stop)
