"""What the model is compared with: counting alone, at the model's positions."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from mlm.evaluation.artefacts import BASELINES, Baseline, Counted, Means
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_data import EvaluationData
from mlm.evaluation.metrics import bits_per_character, means_over, paired_difference
from mlm.evaluation.neighbour_mixture import (
    COMPONENTS,
    NeighbourMixtures,
    unigram_probabilities,
)
from mlm.evaluation.predictions import Positions, Ranked, Scored


@dataclass(frozen=True)
class Ngrams:
    """The unigram's probabilities [vocabulary], and the bigram and the trigram."""

    unigram: np.ndarray
    mixtures: NeighbourMixtures

    @classmethod
    def fitted(cls, data: EvaluationData, special: list[int]) -> "Ngrams":
        """Counted on train, with weights fitted on validation."""
        mixtures = NeighbourMixtures(data.counts, special)
        mixtures.fit(data.fitted)
        return cls(unigram_probabilities(data.counts, special), mixtures)

    def scores(self, positions: Positions, label: str) -> dict[str, Ranked]:
        """The answers by n-gram, given the true neighbours; `label` names the progress line."""
        unigram = unigram_scores(self.unigram, positions.truth)
        return {"unigram": unigram} | self.mixtures.scores(positions, label)


def baselines(
    ngrams: Ngrams,
    counted: Counted,
    hidden: Scored,
    tokens_per_character: float | None,
    resampling: Resampling,
) -> dict[str, Baseline]:
    """The unigram, bigrams and trigrams at the positions of `hidden`, the model's answers where the
    true token is hidden from it, in the order of the report."""
    positions, model, found = hidden.positions, hidden.scores, {}
    unit = positions.unit

    def add(name: str, scores: Ranked, weights: dict | None = None) -> None:
        means = Means(**means_over(scores))
        accuracy = paired_difference(unit, model.correct, scores.correct, resampling)
        found[name] = Baseline(
            **asdict(paired_difference(unit, model.loss, scores.loss, resampling)),
            accuracy_difference=accuracy.difference,
            accuracy_difference_interval=accuracy.difference_interval,
            bits_per_character=bits_per_character(means.loss, tokens_per_character),
            hidden=means,
            sees=BASELINES[name].sees,
            counted=counted,
            weights=weights,
        )

    all_seen, mixtures = ngrams.scores(positions, "baselines"), ngrams.mixtures
    add("unigram", all_seen.pop("unigram"))
    seen_as_shown = _scores_as_shown(mixtures, positions, all_seen)
    for name, components in COMPONENTS.items():
        weights = dict(zip(components, map(float, mixtures.weights[name]), strict=True))
        add(f"{name}_hidden", seen_as_shown[name], weights)
        add(name, all_seen[name], weights)
    return found


def fitted_bigram(data: EvaluationData, special: list[int]) -> NeighbourMixtures:
    """The bigram alone, fitted as that of `baselines`."""
    bigram = NeighbourMixtures(replace(data.counts, beside_two={}), special)
    bigram.fit(data.fitted)
    return bigram


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
