"""A model's answers at the masked positions of samples.

Logits are computed at the masked positions only. Every batch has the same shape: the last is
padded, and the padding's answers are dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlm.config.evaluation import Evaluation
from mlm.evaluation.predictions import Positions, Scored, Scores, positions_of
from mlm.foundations.terminal import Progress
from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.split_samples import Samples, joined

#: Logits of one batch: 2^26 float32 values are 256 MB, and the softmax needs a few copies.
_LARGEST_LOGITS = 2**26
#: The arrays of a masked batch that the model needs.
ASKED = ("input_ids", "attention_mask", "positions", "labels")


@dataclass(frozen=True)
class AnsweringModel:
    """An exported model that is open on its devices. `answers` takes `input_ids` and
    `attention_mask` [batch, sequence], masked already, `positions` and `labels` [batch, slots],
    int32, of rows that `replicas` divide. It gives, [batch, slots] each, the label's
    `log_probability` in nats and `rank` from 1, and the largest probability,
    `top_probability`."""

    answers: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    replicas: int
    vocabulary: int


class Scorer:
    """Scores an exported model on samples, on whatever devices it is open on."""

    def __init__(self, model: AnsweringModel, section: Evaluation, tokenizer, length: int):
        """Samples are of `length` tokens of `tokenizer`, transformers' fast one. The section's
        `batch_size` is that of all replicas together; it changes figures by rounding only."""
        self._model, self._seed = model, section.seed
        self._batch_size, self.length = section.batch_size, length
        self._plan = MaskingPlan(
            mlm_probability=section.mlm_probability,
            mask_token=section.mask_token,
            random_token=section.random_token,
            mask_id=tokenizer.mask_token_id,
            special_ids=tuple(sorted(set(tokenizer.all_special_ids))),
            vocabulary_size=len(tokenizer),
            sequence_length=length,
        )

    def score(self, samples: Samples, label: str = "evaluation") -> Scored:
        """Mask each sample with (seed, its index in the split) and score the model at every masked
        position, in order."""

        def asked(rows: slice) -> dict[str, np.ndarray]:
            part = samples[rows]
            return mask_batch(
                part.input_ids, part.attention_mask, part.index, self._plan, self._seed
            )

        positions, scores = [], []
        at_once = min(len(samples), self._batch_size)
        found = self._run(len(samples), asked, at_once, self._plan.slots, label)
        for rows, batch, answers in found:
            known, answered = _unpacked(samples[rows], batch, answers)
            positions.append(known)
            scores.append(answered)
        return Scored(joined(positions), joined(scores))

    def log_probabilities(self, question: dict[str, np.ndarray]) -> np.ndarray:
        """Log-probabilities in nats of one label a row, float64 [rows], of a `question` that is
        masked already: the arrays of `ASKED`. Its rows may be shorter than a sample, and are then
        more in a batch."""
        count, length = question["input_ids"].shape

        def asked(rows: slice) -> dict[str, np.ndarray]:
            return {name: array[rows] for name, array in question.items()}

        # Powers of two: few shapes to compile.
        rounded = 1 << (count - 1).bit_length()
        at_once = min(rounded, self._batch_size * self.length // length)
        found = self._run(count, asked, at_once, slots=1)
        answered = [answers["log_probability"][:, 0] for _, _, answers in found]
        return np.concatenate(answered).astype(np.float64)

    def _run(
        self, rows: int, asked: Callable[[slice], dict], at_once: int, slots: int, label: str = ""
    ):
        """(slice of the rows, what `asked` gives of it, the answers to that [rows, slots]) in
        order, `at_once` rows for all replicas if they fit in memory; a progress line if it has a
        `label`."""
        replicas = self._model.replicas
        size = rows_of_a_replica(at_once, replicas, slots, self._model.vocabulary) * replicas
        progress = None
        for start in range(0, rows, size):
            batch = slice(start, min(start + size, rows))
            count = batch.stop - batch.start
            question = asked(batch)
            # Padded with copies of its first row.
            filled = np.r_[np.arange(count), np.zeros(size - count, int)]
            answers = self._model.answers({name: question[name][filled] for name in ASKED})
            yield batch, question, {name: value[:count] for name, value in answers.items()}
            # Not timed from the start: the first batch includes compilation.
            progress = progress or Progress(label, rows, "samples")
            if label:
                progress.to(batch.stop)


def rows_of_a_replica(batch_size: int, replicas: int, slots: int, vocabulary: int) -> int:
    """Samples that one of `replicas` scores at once, of `batch_size` for all together; fewer if
    logits [rows, slots, vocabulary] would not fit in memory."""
    largest = max(1, _LARGEST_LOGITS // (slots * vocabulary))
    return max(1, min(-(-batch_size // replicas), largest))


def _unpacked(samples: Samples, batch: dict, answers: dict) -> tuple[Positions, Scores]:
    """Slots in any order [batch, slots] as rows in the order of the places."""
    in_use = batch["weights"] > 0
    rows, columns = np.nonzero(in_use)[0], batch["positions"][in_use]
    chosen = np.zeros(samples.input_ids.shape, bool)
    chosen[rows, columns] = True
    ids, real = samples.input_ids, samples.attention_mask
    asked = positions_of(ids, real, batch["input_ids"], chosen, samples.index, samples.group)
    order = np.lexsort((columns, rows))
    ordered = {name: array[in_use][order] for name, array in answers.items()}
    for name in ("log_probability", "top_probability"):
        ordered[name] = ordered[name].astype(np.float64)
    return asked, Scores(**ordered, correct=ordered["rank"] == 1)
