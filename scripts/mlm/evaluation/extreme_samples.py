"""The samples that were predicted best and worst, token by token."""

import numpy as np

from mlm.evaluation.artefacts import ExtremeSamples, FirstGuess, PredictedSample, PredictedToken
from mlm.evaluation.bootstrap import sums_by_unit
from mlm.evaluation.predictions import Ranked, Scored
from mlm.samples.split_samples import Samples
from mlm.tokenizer.pieces import texts_of


def extreme_samples(test: Scored, samples: Samples, tokenizer, count: int) -> ExtremeSamples:
    """The `count` best and the worst predicted ones, without padding."""
    best, worst = best_and_worst(test.positions.sample, test.scores, count)

    def shown(index: int, loss: float, accuracy: float) -> PredictedSample:
        row = samples[int(np.searchsorted(samples.index, index))]
        places = np.flatnonzero(row.attention_mask).tolist()
        texts = texts_of(tokenizer, row.input_ids[row.attention_mask].tolist())
        asked = np.flatnonzero(test.positions.sample == index)
        position, scores = test.positions.position[asked].tolist(), test.scores[asked]
        figures = scores.top_probability.tolist(), scores.correct.tolist()
        answers = zip(position, texts_of(tokenizer, scores.top.tolist()), *figures, strict=True)
        guesses = {place: FirstGuess(*guess) for place, *guess in answers}
        tokens = [
            PredictedToken(text, place in guesses, guesses.get(place))
            for place, text in zip(places, texts, strict=True)
        ]
        return PredictedSample(index, loss, accuracy, tokens)

    return ExtremeSamples([shown(*s) for s in best], [shown(*s) for s in worst])


def best_and_worst(sample: np.ndarray, scores: Ranked, count: int) -> tuple[list, list]:
    """The `count` best and worst samples by mean loss, none in both: two lists of (index, loss,
    accuracy). A sample takes part with half of the mean number of predictions, so that no stub wins
    by one lucky guess; of equals, the lower index is first."""
    index = np.unique(sample)
    totals, counts = sums_by_unit(sample, scores.loss, scores.correct)
    enough = counts >= counts.mean() / 2
    index, totals, counts = index[enough], totals[enough], counts[enough]
    means = totals / counts[:, None]
    order = np.argsort(means[:, 0], kind="stable")
    best = order[: min(count, (len(order) + 1) // 2)]
    rest = order[len(best) :]
    worst = rest[np.lexsort((index[rest], -means[rest, 0]))][:count]
    return tuple(
        [(int(index[i]), float(means[i, 0]), float(means[i, 1])) for i in chosen]
        for chosen in (best, worst)
    )
