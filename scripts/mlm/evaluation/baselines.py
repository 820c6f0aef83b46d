"""What the model is compared with: counting alone, at the model's positions."""

from dataclasses import asdict, dataclass

import numpy as np

from mlm.evaluation.artefacts import Baseline, Counted, Means
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_data import EvaluationData
from mlm.evaluation.metrics import bits_per_character, means_over, paired_difference
from mlm.evaluation.neighbour_mixture import (
    COMPONENTS,
    NeighbourMixtures,
    unigram_probabilities,
)
from mlm.evaluation.predictions import Answers, Scored


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


def baselines(
    ngrams: Ngrams,
    counted: Counted,
    hidden: Scored,
    tokens_per_character: float | None,
    resampling: Resampling,
) -> dict[str, Baseline]:
    """The unigram, the bigram and the trigram at the positions of `hidden`, the model's answers
    where the true token is hidden from it. The mask token was never counted, so it says nothing; a
    random token misleads them as it misleads the model."""
    positions, model, mixtures = hidden.positions, hidden.scores, ngrams.mixtures
    answers = {"unigram": unigram_answers(ngrams.unigram, positions.truth)}
    answers |= mixtures.scores(positions, "baselines")
    found = {}
    for name, scores in answers.items():
        means, weights = Means(**means_over(scores)), None
        if name in COMPONENTS:
            weights = dict(zip(COMPONENTS[name], map(float, mixtures.weights[name]), strict=True))
        pairs = (model.loss, scores.loss), (model.correct, scores.correct)
        loss, accuracy = (paired_difference(positions.unit, *two, resampling) for two in pairs)
        found[name] = Baseline(
            **asdict(loss),
            accuracy_difference=accuracy.difference,
            accuracy_difference_interval=accuracy.difference_interval,
            bits_per_character=bits_per_character(means.loss, tokens_per_character),
            hidden=means,
            counted=counted,
            weights=weights,
        )
    return found


def unigram_answers(probabilities: np.ndarray, truth: np.ndarray) -> Answers:
    """The unigram's answers for the true ids `truth` [positions]."""
    return Answers(np.log(probabilities[truth]), truth == np.argmax(probabilities))
