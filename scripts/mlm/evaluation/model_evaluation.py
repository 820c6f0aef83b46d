"""The evaluation of an exported model: from shards to every figure of evaluation.json."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.config.pretraining import engine_for
from mlm.corpus.artefacts import CorpusSplit
from mlm.evaluation.artefacts import Baseline, ClusterSums, EvaluationFigures, Means, Summary
from mlm.evaluation.bits_by_group import TextOfGroups, bits_by_group
from mlm.evaluation.exported_model import load_tokenizer, open_model
from mlm.evaluation.hidden_sets import (
    Answers,
    Positions,
    Questions,
    Scores,
    evaluated_sets,
    positions_of,
)
from mlm.evaluation.intervals import Clusters, Estimate, mean_of
from mlm.evaluation.metrics import (
    authors_of_groups,
    cluster_sums,
    frequency_bands,
    means_over,
    summary_of,
)
from mlm.evaluation.minimal_pair_files import Pair
from mlm.evaluation.minimal_pairs import score_pairs
from mlm.evaluation.model_answers import Scorer
from mlm.evaluation.ngram_baselines import COMPONENTS, NeighbourMixtures
from mlm.evaluation.verdicts import verdicts_on
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.foundations.terminal import plural
from mlm.samples.manifests import Manifest, check_shards
from mlm.samples.ngram_counts import TokenCounts, count_tokens, counted_samples
from mlm.samples.shard_reading import Samples, evenly_spread, joined, read_samples, spread_samples

#: Settings that the figures depend on and the file records.
_SHOWN = {"max_tokens", "mlm_probability", "seed"}


@dataclass(frozen=True)
class ScoredSplit:
    """The predictions of the tokens of a split: the model's and the unigram's."""

    positions: Positions
    scores: Scores
    unigram: Answers
    clusters: Clusters
    tokens_per_character: float | None
    summary: Summary
    sums: ClusterSums

    @classmethod
    def of(
        cls,
        questions: Questions,
        manifest: Manifest,
        on: "Evaluated",
        scorer: Scorer,
        mixtures: NeighbourMixtures,
    ) -> Self:
        """Score the `questions` about a split; MlmError if it has no token to predict."""
        samples, split = questions.samples, manifest.split
        described, texts = on.corpus.get(split), on.texts if split == "test" else None
        positions, scores = scorer.score(questions, split)
        unknown = scorer.unknown_share(samples)
        if not len(positions):
            raise _too_few_tokens(split, len(samples), unknown)
        of_positions = positions.sample, positions.group, manifest.group_by
        clusters = Clusters(*of_positions, authors_of_groups(described))
        density = tokens_per_character(manifest, described)
        step = counted_samples(manifest.num_samples, manifest.num_tokens).step
        counted = (positions.sample % step == 0) & (split == "train")
        unigram = mixtures.unigram_answers(positions.truth, counted)
        sums = cluster_sums(clusters, scores, texts)
        summary = summary_of(positions, scores, clusters.of_predictions, density, unknown, sums)
        return cls(positions, scores, unigram, clusters, density, summary, sums)

    @property
    def loss_beyond_unigram(self) -> Estimate:
        """Estimate how much higher the model's loss is than the unigram's."""
        return mean_of(self.clusters.of_predictions, self.scores.loss - self.unigram.loss)


@dataclass(frozen=True)
class Evaluated:
    """What a model is evaluated on: `manifests` are paths, with shards relative to `root`; `corpus`
    has what is known of the splits' text, and `texts` the groups of test; `pairs` are minimal ones.
    `attend` is what attention stayed within in the training, and `row_samples` the samples of a row
    at its end."""

    manifests: Mapping[str, Path]
    corpus: Mapping[str, CorpusSplit]
    texts: TextOfGroups | None = None
    pairs: Sequence[Pair] = ()
    attend: str = "sample"
    root: Path = Path()
    row_samples: int = 1


def evaluate(
    run: str, model: Path, section: Evaluation, accelerator: Accelerator, on: Evaluated
) -> EvaluationFigures:
    """All figures of run `run`, not yet rounded, of the model in the directory `model`. Raises
    MlmError if the inputs do not belong together, or a split is empty."""
    splits = {s: Manifest.read(path).in_rows(on.row_samples) for s, path in on.manifests.items()}
    tokenizer, described, texts = load_tokenizer(model), on.corpus.get("test"), on.texts
    within = tokenizer.cls_token_id if on.attend == "document" else None
    # TensorFlow's packages for TPUs have a JAX for CPUs alone.
    on_cpu = accelerator.kind == "tpu" and engine_for("auto") == "tensorflow"
    accelerator = accelerator.model_copy(update={"kind": "cpu"} if on_cpu else {})
    opened = open_model(model, accelerator.for_evaluation, within)
    scorer = Scorer(opened, section, tokenizer, splits["train"].sequence_length)
    data = read_evaluation_data(splits, on.root, section.max_tokens, scorer)
    mixtures = NeighbourMixtures(data.counts, scorer.special_ids)
    mixtures.fit(data.fitted)
    test, train = (
        ScoredSplit.of(questions, splits[split], on, scorer, mixtures)
        for split, questions in (("test", data.test), ("train", data.train))
    )
    scores, in_papers = test.scores, scorer.score_as_in_papers(data.test.samples)
    if not len(in_papers):
        raise _too_few_tokens("test", test.summary.num_samples)
    files = {"model": model / "model.safetensors", "tokenizer": model / "tokenizer.json"}
    files |= {"manifest": on.manifests["test"]}
    digests = {name: file_sha256(file) for name, file in files.items()}
    figures = EvaluationFigures(
        run=run,
        test=test.summary,
        train=train.summary,
        gap_to_train=(test.loss_beyond_unigram - train.loss_beyond_unigram).difference,
        as_in_papers=Means(**means_over(in_papers)),
        baselines=baselines(mixtures, test),
        frequency_bands=frequency_bands(test.positions.truth, scores, data.counts.unigram),
        minimal_pairs=score_pairs(on.pairs, scorer, mixtures),
        verdicts=[],
        group_by=splits["test"].group_by,
        cluster_by=test.clusters.by,
        cluster_sums=test.sums,
        settings=section.model_dump(include=_SHOWN),
        digests=digests | ({"text": texts.sha256} if texts else {}),
        by_group=bits_by_group(test.positions, scores.loss, texts) if texts else None,
        overlap_with_train=described and described.overlap_with_train,
    )
    return replace(figures, verdicts=verdicts_on(figures, splits["test"].num_tokens))


def baselines(mixtures: NeighbourMixtures, test: ScoredSplit) -> dict[str, Baseline]:
    """The unigram, the bigram and the trigram at the model's positions."""
    clusters, answers = test.clusters.of_predictions, {"unigram": test.unigram}
    answers |= mixtures.scores(test.positions, "baselines")
    compared = {}
    for name, other in answers.items():
        means, weights, density = means_over(other), None, test.tokens_per_character
        if name in COMPONENTS:
            weights = dict(zip(COMPONENTS[name], map(float, mixtures.weights[name]), strict=True))
        correct = test.scores.correct.astype(np.float64) - other.correct
        compared[name] = Baseline(
            **means,
            bits_per_character=density and means["loss"] * density / math.log(2),
            loss_difference=mean_of(clusters, test.scores.loss - other.loss).difference,
            accuracy_difference=mean_of(clusters, correct).difference,
            weights=weights,
        )
    return compared


#: Tokens of validation that the weights of the baselines are fitted on.
_FITTED_TOKENS = 20_000


@dataclass(frozen=True)
class EvaluationData:
    """Questions about test and train, the `counts` of train, and `fitted`, the positions of
    validation's text that baselines are fitted on."""

    test: Questions
    train: Questions
    counts: TokenCounts
    fitted: Positions


def read_evaluation_data(
    manifests: Mapping[str, Manifest], root: str | Path, max_tokens: int, scorer: Scorer
) -> EvaluationData:
    """Read the splits, checked against their manifests: about `max_tokens` of test, and one hidden
    set each of as many samples of train. Raises MlmError for damaged shards, and an empty split."""
    for manifest in manifests.values():
        check_shards(manifest, root)
    test, train = manifests["test"], manifests["train"]
    if not test.num_samples:
        raise _too_few_tokens("test", 0)
    index, sets = evaluated_sets(test.num_samples, test.num_tokens, scorer.sets, max_tokens)
    wanted = np.unique(index)
    samples = joined(list(read_samples(test, root, wanted)))
    of_test = Questions(samples, np.searchsorted(wanted, index), sets)
    counted = counted_samples(train.num_samples, train.num_tokens)
    chosen = evenly_spread(train.num_samples, len(wanted))
    gathered: list[Samples] = []

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        needed = np.union1d(np.arange(0, train.num_samples, counted.step), chosen)
        for samples in read_samples(train, root, needed):
            gathered.append(samples[np.isin(samples.index, chosen)])
            part = samples[samples.index % counted.step == 0]
            yield part.input_ids, part.attention_mask

    counts = count_tokens(batches(), scorer.vocabulary, scorer.special_ids, two=True)
    rows = np.arange(len(chosen))
    of_train = Questions(joined(gathered), rows, (rows % scorer.sets).astype(np.int32))
    fitted = _text_positions(manifests["validation"], root, scorer)
    return EvaluationData(of_test, of_train, counts, fitted)


def tokens_per_character(manifest: Manifest, described: CorpusSplit | None) -> float | None:
    """Text tokens of a split, without the two around each document, over the characters of its
    text; None if these are not known, or there are none."""
    tokens = manifest.num_tokens - 2 * manifest.documents
    return tokens / described.characters if described and described.characters and tokens else None


def _text_positions(manifest: Manifest, root: str | Path, scorer: Scorer) -> Positions:
    """Every text token of samples spread over the split, each with its neighbours."""
    samples = spread_samples(manifest, root, _FITTED_TOKENS // manifest.sequence_length + 1)
    ids, mask = samples.input_ids, samples.attention_mask
    positions = positions_of(ids, mask, ids, mask & ~np.isin(ids, scorer.special_ids))
    if not len(positions):
        raise _too_few_tokens("validation", len(samples), scorer.unknown_share(samples))
    return positions


def _too_few_tokens(split: str, samples: int, unknown_share: float = 0) -> MlmError:
    """The error that so many `samples` of a split have no token, or too few, to evaluate on."""
    remedy = "Give it more text" + f", or raise corpus.held_out.{split}" * (split != "train")
    if unknown_share == 1:
        remedy = "Set tokenizer.character_coverage: 1, or choose a tokenizer made for such text"
    lack = f"too few known tokens to evaluate a model, in {plural(samples, 'sample')}"
    return MlmError(f"The {split} split has {lack}. {remedy}.")
