"""What the model is compared with: counting alone, at the model's positions."""

from dataclasses import asdict

import numpy as np

from mlm.evaluation.artefacts import Baseline, Means
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.metrics import bits_per_character, means_over, paired_difference
from mlm.evaluation.neighbour_mixture import COMPONENTS, NeighbourMixtures
from mlm.evaluation.predictions import Answers, Scored


def baselines(
    mixtures: NeighbourMixtures,
    hidden: Scored,
    tokens_per_character: float | None,
    resampling: Resampling,
) -> dict[str, Baseline]:
    """The unigram, the bigram and the trigram at the positions of `hidden`, the model's answers
    where the true token is hidden from it. The mask token was never counted, so it says nothing; a
    random token misleads them as it misleads the model."""
    positions, model = hidden.positions, hidden.scores
    answers = {"unigram": unigram_answers(mixtures.unigram, positions.truth)}
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
            weights=weights,
        )
    return found


def unigram_answers(probabilities: np.ndarray, truth: np.ndarray) -> Answers:
    """The unigram's answers for the true ids `truth` [positions]."""
    return Answers(np.log(probabilities[truth]), truth == np.argmax(probabilities))
