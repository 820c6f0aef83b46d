"""The evaluation of an exported model: from shards to every figure of evaluation.json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.artefacts import Baseline, EvaluationFigures, Means
from mlm.evaluation.bits_by_group import TextOfGroups, bits_by_group
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.exported_model import framework_of, load_tokenizer
from mlm.evaluation.metrics import (
    bits_per_character,
    calibration_of,
    frequency_bands,
    gap_between,
    group_sums,
    means_over,
    paired_difference,
    summary_of,
)
from mlm.evaluation.minimal_pairs import PairScoring, score_pairs
from mlm.evaluation.neighbour_mixture import COMPONENTS, NeighbourMixtures
from mlm.evaluation.opened_model import open_model
from mlm.evaluation.pair_files import Pair
from mlm.evaluation.predictions import Answers, Positions, Scored, positions_of
from mlm.evaluation.scoring import Scorer
from mlm.evaluation.verdicts import verdicts_on
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, check_shards
from mlm.samples.split_samples import (
    Samples,
    evenly_spread,
    joined,
    read_samples,
    spread_samples,
)
from mlm.samples.token_counts import TokenCounts, count_tokens, counted_samples

#: Settings that the figures depend on and the file records.
_SHOWN = ("max_tokens", "mlm_probability", "mask_token", "random_token", "seed")
#: What is known only with a sample of train.
_BESIDE_TRAIN = ("train", "gap", "gap_beyond_unigram")


def evaluate(
    run: str,
    model: Path,
    manifests: Mapping[str, Path],
    characters: Mapping[str, int],
    section: Evaluation,
    accelerator: Accelerator,
    pairs: Sequence[Pair] = (),
    attend: str = "sample",
    root: Path = Path(),
    corpus: Path | None = None,
) -> EvaluationFigures:
    """All figures of run `run`, not yet rounded, of the model in the directory `model`. `manifests`
    are paths, with shards relative to `root`; `characters` those of the splits' text if known;
    `pairs` those of the configuration and of its files; `attend` what attention stayed within in
    the training; `corpus` describes the text of test, if known. Raises MlmError if the inputs do
    not belong together, or a split is empty."""
    splits = {split: Manifest.read(path) for split, path in manifests.items()}
    tokenizer = load_tokenizer(model)
    special, mask_id = sorted(set(tokenizer.all_special_ids)), tokenizer.mask_token_id
    data = read_evaluation_data(
        splits, root, section.max_tokens, section.train_samples, len(tokenizer), special
    )
    within = tokenizer.cls_token_id if attend == "document" else None
    framework = framework_of(model)
    opened = open_model(model, framework, accelerator.for_evaluation, within)
    scorer = Scorer(opened, section, tokenizer, data.sequence_length)
    test = scorer.score(data.test, "test")
    hidden, beside_train = test.where_hidden(mask_id), dict.fromkeys(_BESIDE_TRAIN)
    if not len(hidden.positions):
        raise MlmError(
            f"No token of the test split's {len(data.test)} samples was hidden from the model: "
            f"{len(test.positions)} were chosen for prediction, and all of them stayed visible. "
            "Raise evaluation.mlm_probability, or give the split more text."
        )
    how = Resampling(section.bootstrap.resamples, section.bootstrap.confidence, section.seed)
    density = {s: tokens_per_character(splits[s], characters.get(s)) for s in ("train", "test")}
    answers, mixtures = hidden.scores, NeighbourMixtures(data.counts, special)
    mixtures.fit(data.fitted)
    if data.train is not None:
        train = scorer.score(data.train, "train")
        known = train.where_hidden(mask_id)
        if len(known.positions):
            truths = [scored.positions.truth for scored in (hidden, known)]
            unigram = [unigram_answers(mixtures.unigram, truth).loss for truth in truths]
            summary = summary_of(train, mask_id, density["train"], how)
            gaps = gap_between(hidden, known, how), gap_between(hidden, known, how, less=unigram)
            beside_train = dict(zip(_BESIDE_TRAIN, (summary, *gaps), strict=True))
    scoring = PairScoring(
        tokenizer,
        data.sequence_length,
        scorer.log_probabilities,
        mixtures,
    )
    texts = TextOfGroups.read(corpus, splits["test"], root) if corpus else None
    figures = EvaluationFigures(
        run=run,
        test=summary_of(test, mask_id, density["test"], how),
        **beside_train,
        baselines=baselines(mixtures, hidden, density["test"], how),
        frequency_bands=frequency_bands(
            hidden.positions.truth, answers, data.counts.unigram, section.frequency_bands
        ),
        calibration=calibration_of(
            answers.top_probability, answers.correct, section.calibration_bins
        ),
        minimal_pairs=score_pairs(pairs, scoring, how),
        verdicts=[],
        group_by=splits["test"].group_by,
        group_sums=group_sums(hidden, texts),
        **_recorded(section, data, model, manifests["test"], texts),
        by_group=bits_by_group(hidden, texts, how) if texts else None,
    )
    said = verdicts_on(figures, len(data.test), splits["test"].num_samples)
    return replace(figures, verdicts=said)


def _recorded(section: Evaluation, data: "EvaluationData", model: Path, test: Path, texts) -> dict:
    """The settings that the figures depend on, and the digests of the files."""
    settings = {name: getattr(section, name) for name in _SHOWN} | {
        "bootstrap": section.bootstrap.model_dump(),
        "train_samples": 0 if data.train is None else len(data.train),
    }
    files = {"model": model / "model.safetensors", "tokenizer": model / "tokenizer.json"}
    digests = {name: file_sha256(file) for name, file in (files | {"manifest": test}).items()}
    return {"settings": settings, "digests": digests | ({"text": texts.sha256} if texts else {})}


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


_REMAKE = (
    "To have the shards made again: rm -r results/shards results/manifests, then the same "
    "snakemake command."
)
#: Tokens of validation that the weights of the baselines are fitted on.
_FITTED_TOKENS = 20_000


@dataclass(frozen=True)
class EvaluationData:
    """Samples of test and of train (None if none was asked for), the `counts` of train, and
    `fitted`, the positions of validation's text that baselines are fitted on."""

    test: Samples
    train: Samples | None
    counts: TokenCounts
    fitted: Positions
    sequence_length: int


def read_evaluation_data(
    manifests: dict[str, Manifest],
    root: str | Path,
    max_tokens: int,
    train_samples: int | None,
    vocabulary: int,
    special_ids: list[int],
) -> EvaluationData:
    """Read the splits, checked against their manifests: at most `max_tokens` of test (but at least
    one sample), `train_samples` of train (None: as many as of test). Raises MlmError for shards
    that do not belong together or to a `vocabulary` of so many ids, and an empty split."""
    for manifest in manifests.values():
        check_shards(manifest, root)
    test = spread_samples(manifests["test"], root, evaluated(manifests["test"], max_tokens))
    if not len(test):
        raise MlmError(
            "The test split has no samples, so that there is nothing to evaluate. Raise "
            "corpus.held_out.test, or give the split more text."
        )
    _check_ids(manifests["test"], test.input_ids, vocabulary)
    train = manifests["train"]
    counted = counted_samples(train.num_samples, train.num_tokens)
    chosen = evenly_spread(train.num_samples, len(test) if train_samples is None else train_samples)
    gathered: list[Samples] = []

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        wanted = np.union1d(np.arange(0, train.num_samples, counted.step), chosen)
        for samples in read_samples(train, root, wanted):
            _check_ids(train, samples.input_ids, vocabulary)
            gathered.append(samples[np.isin(samples.index, chosen)])
            kept = samples[samples.index % counted.step == 0]
            yield kept.input_ids, kept.attention_mask

    counts = count_tokens(batches(), vocabulary, special_ids, two=True)
    return EvaluationData(
        test=test,
        train=joined(gathered) if len(chosen) else None,
        counts=counts,
        fitted=_text_positions(manifests["validation"], root, special_ids),
        sequence_length=train.sequence_length,
    )


def evaluated(manifest: Manifest, max_tokens: int) -> int:
    """How many samples of the test split are evaluated, at equal distances."""
    return min(manifest.num_samples, max(1, max_tokens // manifest.sequence_length))


def tokens_per_character(manifest: Manifest, characters: int | None) -> float | None:
    """Text tokens of a split, without the two around each document, over the `characters` of its
    text; None if these are not known, or there are none."""
    frame = 2 * manifest.documents if manifest.documents is not None else 0
    tokens = manifest.num_tokens - frame
    return tokens / characters if characters and tokens else None


def _check_ids(manifest: Manifest, ids: np.ndarray, vocabulary: int) -> None:
    largest = int(ids.max(initial=0))
    if largest >= vocabulary:
        raise MlmError(
            f"The {manifest.split} shards hold the token id {largest}; the model's tokenizer has "
            f"ids up to {vocabulary - 1}. They do not belong together. {_REMAKE}"
        )


def _text_positions(manifest: Manifest, root, special_ids: list[int]) -> Positions:
    """Every text token of samples spread over the split, each with its neighbours."""
    samples = spread_samples(manifest, root, _FITTED_TOKENS // manifest.sequence_length + 1)
    ids, mask = samples.input_ids, samples.attention_mask
    positions = positions_of(ids, mask, ids, mask & ~np.isin(ids, special_ids))
    if not len(positions):
        raise MlmError(
            f"The validation split has no token of text in {len(samples)} samples; the baselines "
            "are fitted on it. Raise corpus.held_out.validation, or give the split more text."
        )
    return positions
