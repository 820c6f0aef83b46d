"""From per-position answers to the parts of an evaluation."""

from dataclasses import asdict

import numpy as np

from mlm.evaluation import verdicts
from mlm.evaluation.artefacts import (
    Baseline,
    Calibration,
    Counted,
    ExtremeSamples,
    FrequencyBand,
    Gap,
    GroupSums,
    Guess,
    PositionBin,
    PredictedSample,
    PredictedToken,
    Summary,
    Verdict,
)
from mlm.evaluation.baselines import (
    NeighbourMixture,
    as_shown,
    unigram_probabilities,
    unigram_scores,
)
from mlm.evaluation.bootstrap import Resampling, bundled, sums_by_sample
from mlm.evaluation.calibration import calibration_bins, expected_calibration_error
from mlm.evaluation.metrics import (
    Difference,
    Text,
    bits_per_character,
    extreme_samples,
    frequency_bands,
    frequency_ranks,
    independent_difference,
    paired_difference,
    part,
    perplexity,
    position_bins,
)
from mlm.evaluation.predictions import SHOWN_AS, Positions, Ranked, Scored
from mlm.evaluation.shard_reading import EvaluationData
from mlm.samples.split_samples import Samples
from mlm.tokenizer.pieces import texts_of

#: What the verdicts call the baselines.
_NAMES = {
    "unigram": "the unigram baseline",
    "bigram_hidden": "the two-sided bigram that sees what the model sees",
    "bigram": "the two-sided bigram that sees every neighbour",
    "trigram_hidden": "the two-sided trigram that sees what the model sees",
    "trigram": "the two-sided trigram that sees every neighbour",
}


def baselines(
    data: EvaluationData,
    special: list[int],
    test: Scored,
    mask_id: int,
    text: Text,
    train_samples: int,
    resampling: Resampling,
) -> dict[str, Baseline]:
    """The unigram, the bigrams and the trigrams at the positions of `test`, in the order they are
    shown.

    `train_samples` is the number of samples of train, of which `data` counted some.
    """
    positions = test.positions
    hidden = positions.answer_hidden(mask_id)

    def baseline(sees: str, scores: Ranked, weights: dict | None = None) -> Baseline:
        loss, where_hidden = float(np.mean(scores.loss)), part(scores, hidden)
        difference = paired_difference(
            positions.unit[hidden], test.scores.loss[hidden], scores.loss[hidden], resampling
        )
        return Baseline(
            loss=loss,
            perplexity=perplexity(loss),
            accuracy=float(np.mean(scores.correct)),
            top5_accuracy=float(np.mean(scores.rank <= 5)),
            bits_per_character=bits_per_character(where_hidden.loss, text),
            hidden=where_hidden,
            difference=difference.mean,
            difference_interval=(difference.low, difference.high),
            sees=sees,
            counted=Counted(data.counts.tokens, data.counted, train_samples),
            weights=weights,
        )

    found = {
        "unigram": baseline(
            "no context: token frequencies of the train split",
            unigram_scores(unigram_probabilities(data.counts, special), positions.truth),
        )
    }
    for order, neighbours in (
        (2, "the left and the right neighbour"),
        (3, "the two neighbours on the left and the two on the right"),
    ):
        mixture = NeighbourMixture(data.counts, special, order)
        mixture.fit(data.fitted)
        weights = dict(zip(mixture.components, map(float, mixture.weights), strict=True))
        all_seen = mixture.scores(positions, mixture.name)
        found[f"{mixture.name}_hidden"] = baseline(
            f"{neighbours}, as the model is shown them",
            _scores_as_shown(mixture, positions, all_seen),
            weights,
        )
        found[mixture.name] = baseline(
            f"{neighbours}, even if hidden from the model", all_seen, weights
        )
    return found


def _scores_as_shown(mixture: NeighbourMixture, positions: Positions, all_seen: Ranked) -> Ranked:
    """The mixture's answers from the model's input, which differs at some of the positions."""
    shown = as_shown(positions)
    changed = (shown.left != positions.left).any(axis=1)
    changed |= (shown.right != positions.right).any(axis=1)
    again = mixture.scores(shown[changed], f"{mixture.name}, as shown")
    log_probability, rank = all_seen.log_probability.copy(), all_seen.rank.copy()
    log_probability[changed], rank[changed] = again.log_probability, again.rank
    return Ranked(log_probability, rank)


def bands(test: Scored, unigram: np.ndarray, uppers: list[int]) -> list[FrequencyBand]:
    """Bands by the true token's rank in the train split."""
    return [
        FrequencyBand(
            **asdict(figures),
            label=f"{first:,} to {last:,}" if last else f"{first:,} and rarer",
            first_rank=first,
            last_rank=last,
        )
        for first, last, figures in frequency_bands(
            test.positions.truth, test.scores, frequency_ranks(unigram), uppers
        )
    ]


def parts_of(
    test: Scored, starts: np.ndarray, mask_id: int, sequence_length: int, bins: int
) -> dict:
    """`positions`, `word_initial`, `shown_as` and `calibration`.

    `starts` [vocabulary] says with which ids a word starts.
    """
    positions, scores = test.positions, test.scores
    initial = starts[positions.truth]
    shown_as = positions.shown_as(mask_id)
    curve = calibration_bins(scores.top_probability, scores.correct, bins)
    return {
        "positions": [
            PositionBin(**asdict(figures), first=first, last=last)
            for first, last, figures in position_bins(positions.position, scores, sequence_length)
        ],
        "word_initial": {
            "initial": part(scores, initial),
            "continuation": part(scores, ~initial),
        },
        "shown_as": {
            name: part(scores, shown_as == number) for number, name in enumerate(SHOWN_AS)
        },
        "calibration": Calibration(expected_calibration_error(curve), curve),
    }


def extreme(test: Scored, samples: Samples, tokenizer, count: int) -> ExtremeSamples:
    """The best and the worst predicted ones, token by token, without padding."""
    best, worst = extreme_samples(test.positions.sample, test.scores, count)

    def shown(index: int, loss: float, accuracy: float) -> PredictedSample:
        row = samples[int(np.searchsorted(samples.index, index))]
        ids = row.input_ids[row.attention_mask].tolist()
        of_sample = np.flatnonzero(test.positions.sample == index)
        places = np.flatnonzero(row.attention_mask).tolist()
        at = dict(zip(test.positions.position[of_sample].tolist(), of_sample, strict=True))
        guesses = texts_of(tokenizer, test.scores.top[of_sample].tolist())
        guess_at = dict(zip(at, guesses, strict=True))
        tokens = []
        for place, text in zip(places, texts_of(tokenizer, ids), strict=True):
            predicted = None
            if place in at:
                predicted = Guess(
                    text=guess_at[place],
                    probability=float(test.scores.top_probability[at[place]]),
                    correct=bool(test.scores.correct[at[place]]),
                )
            tokens.append(PredictedToken(text, place in at, predicted))
        return PredictedSample(index, loss, accuracy, tokens)

    return ExtremeSamples([shown(*s) for s in best], [shown(*s) for s in worst])


#: Rows of sums that evaluation.json holds at most, however many groups there are.
_MOST_SUMS = 2000


def group_sums(test: Scored) -> GroupSums:
    """The test split's sums by group, for pairing this run with others.

    Beyond `_MOST_SUMS` groups, neighbours are added up.
    """
    totals, counts = sums_by_sample(
        test.positions.unit, test.scores.loss, test.scores.correct.astype(np.int64)
    )
    table = bundled(np.column_stack([totals, counts]), _MOST_SUMS)
    return GroupSums(
        loss=table[:, 0].tolist(),
        correct=table[:, 1].astype(int).tolist(),
        predictions=table[:, 2].astype(int).tolist(),
    )


def gap_of(test: Scored, train: Scored, resampling: Resampling) -> Gap:
    """How much higher the loss on test is than on train, with an interval."""
    found = independent_difference(
        *((s.positions.unit, s.scores.loss) for s in (test, train)), resampling
    )
    return Gap(found.mean, (found.low, found.high))


def all_verdicts(
    test: tuple[Scored, Summary],
    train: tuple[Summary, Gap] | None,
    baselines: dict[str, Baseline],
    calibration_error: float,
    resampling: Resampling,
    group_by: str | None,
    carved: bool,
    evaluated: tuple[int, int],
) -> list[Verdict]:
    """What the figures say, the comparison with the unigram first.

    `group_by` is what the groups of the test split are called (None: the shards do not say), and
    `carved` whether it was dealt from train document by document; `evaluated` is the number of its
    samples that were, and of all.
    """
    scored, summary = test
    found = []
    for key, baseline in baselines.items():
        difference = Difference(
            baseline.difference, *baseline.difference_interval, resampling.confidence
        )
        found.append(verdicts.against_baseline(_NAMES[key], difference))
    if train is not None:
        of_train, gap = train
        difference = Difference(gap.difference, *gap.difference_interval, resampling.confidence)
        found.append(verdicts.between_train_and_test(summary.loss, of_train.loss, difference))
        if carved:
            found.append(verdicts.ON_CARVING)
    found.append(verdicts.on_groups(group_by, summary.num_groups))
    confidence = float(np.mean(scored.scores.top_probability))
    found.append(verdicts.on_calibration(calibration_error, confidence, summary.accuracy))
    found.append(verdicts.on_sampling(*evaluated))
    found.append(verdicts.on_size(summary.num_predictions, summary.num_samples))
    return [v for v in found if v is not None]
