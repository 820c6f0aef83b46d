"""What the model is compared with: counting alone, at the model's positions."""

from dataclasses import asdict, replace

import numpy as np

from mlm.evaluation.artefacts import Baseline
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_data import EvaluationData
from mlm.evaluation.metrics import bits_per_character, means_over, paired_difference, part
from mlm.evaluation.neighbour_mixture import (
    COMPONENTS,
    NeighbourMixtures,
    unigram_probabilities,
)
from mlm.evaluation.predictions import Positions, Ranked, Scored

_NEIGHBOURS = {
    "bigram": "the left and the right neighbour",
    "trigram": "the two neighbours on the left and the two on the right",
}


def baselines(
    data: EvaluationData,
    special: list[int],
    test: Scored,
    mask_id: int,
    tokens_per_character: float | None,
    resampling: Resampling,
) -> dict[str, Baseline]:
    """The unigram, bigrams and trigrams at the positions of `test`, in the order of the report."""
    positions = test.positions
    hidden = positions.answer_hidden(mask_id)

    def baseline(sees: str, scores: Ranked, weights: dict | None = None) -> Baseline:
        where_hidden = part(scores, hidden)
        difference = paired_difference(
            positions.unit[hidden], test.scores.loss[hidden], scores.loss[hidden], resampling
        )
        return Baseline(
            **asdict(difference),
            **means_over(scores),
            bits_per_character=bits_per_character(where_hidden.loss, tokens_per_character),
            hidden=where_hidden,
            sees=sees,
            counted=data.counted,
            weights=weights,
        )

    unigram = unigram_scores(unigram_probabilities(data.counts, special), positions.truth)
    found = {"unigram": baseline("no context: token frequencies of the train split", unigram)}
    mixtures = NeighbourMixtures(data.counts, special)
    mixtures.fit(data.fitted)
    all_seen = mixtures.scores(positions, "baselines")
    seen_as_shown = _scores_as_shown(mixtures, positions, all_seen)
    for name, neighbours in _NEIGHBOURS.items():
        weights = dict(zip(COMPONENTS[name], map(float, mixtures.weights[name]), strict=True))
        found[f"{name}_hidden"] = baseline(
            f"{neighbours}, as the model is shown them", seen_as_shown[name], weights
        )
        found[name] = baseline(
            f"{neighbours}, even if hidden from the model", all_seen[name], weights
        )
    return found


def unigram_scores(probabilities: np.ndarray, truth: np.ndarray) -> Ranked:
    """The unigram's answers for the true ids `truth` [positions]."""
    order = np.argsort(-probabilities, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return Ranked(np.log(probabilities[truth]), ranks[truth])


def as_shown(positions: Positions) -> Positions:
    """`positions` with the neighbours that the model is shown. The mask token was never counted, so
    it says nothing; a random token misleads as it misleads the model."""
    return replace(positions, left=positions.shown_left, right=positions.shown_right)


def _scores_as_shown(
    mixtures: NeighbourMixtures, positions: Positions, all_seen: dict[str, Ranked]
) -> dict[str, Ranked]:
    """The answers from the model's input, which differs at some of the positions."""
    shown = as_shown(positions)
    changed = (shown.left != positions.left).any(axis=1)
    changed |= (shown.right != positions.right).any(axis=1)
    again = mixtures.scores(shown[changed], "baselines, as shown")
    found = {}
    for name, scores in all_seen.items():
        log_probability, rank = scores.log_probability.copy(), scores.rank.copy()
        log_probability[changed], rank[changed] = again[name].log_probability, again[name].rank
        found[name] = Ranked(log_probability, rank)
    return found
