"""The evaluation of an exported model: from shards to every figure of evaluation.json."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.artefacts import EvaluationFigures
from mlm.evaluation.baselines import baselines
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_data import (
    EvaluationData,
    read_evaluation_data,
    tokens_per_character,
)
from mlm.evaluation.exported_model import framework_of, load_tokenizer
from mlm.evaluation.extreme_samples import extreme_samples
from mlm.evaluation.metrics import (
    calibration_of,
    frequency_bands,
    gap_between,
    group_sums,
    part,
    position_bins,
    summary_of,
)
from mlm.evaluation.minimal_pairs import score_pairs
from mlm.evaluation.predictions import SHOWN_AS, Scored
from mlm.evaluation.scoring import AnsweringModel, Scorer
from mlm.evaluation.verdicts import verdicts_on
from mlm.foundations.atomic import read_json
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.tokenizer.pieces import word_starts

#: Settings that the figures depend on and the file records.
_SHOWN = ("max_tokens", "mlm_probability", "mask_token", "random_token", "seed", "samples")
_SHOWN += ("frequency_bands", "calibration_bins")


def evaluate(
    run: str,
    model: Path,
    manifests: Mapping[str, Path],
    characters: Mapping[str, int],
    section: Evaluation,
    accelerator: Mapping[str, Any],
    attend: str = "sample",
    carved: bool = False,
    root: Path = Path(),
) -> EvaluationFigures:
    """All figures of run `run`, not yet rounded, of the model in the directory `model`. `manifests`
    are paths, with shards relative to `root`; `characters` those of the splits' text if known;
    `attend` what attention stayed within in the training; `carved` says that test was dealt from
    train document by document. Raises MlmError if the inputs do not belong together, or a split is
    empty."""
    splits = {split: Manifest.read(path) for split, path in manifests.items()}
    tokenizer = load_tokenizer(model)
    special, mask_id = sorted(set(tokenizer.all_special_ids)), tokenizer.mask_token_id
    data = read_evaluation_data(
        splits, root, section.max_tokens, section.train_samples, len(tokenizer), special
    )
    within = tokenizer.cls_token_id if attend == "document" else None
    opened = _opened(model, within, accelerator, section.seed)
    scorer = Scorer(opened, section, tokenizer, data.sequence_length)
    pairs = score_pairs(
        section.minimal_pairs, tokenizer, data.sequence_length, scorer.log_probabilities
    )
    test = scorer.score(data.test, "test")
    if not len(test.positions):
        raise MlmError(
            f"No token of the test split's {len(data.test)} samples was chosen for prediction. "
            "Raise evaluation.mlm_probability, or give the split more text."
        )
    how = Resampling(section.bootstrap.resamples, section.bootstrap.confidence, section.seed)
    density = {s: tokens_per_character(splits[s], characters.get(s)) for s in ("train", "test")}
    on_train = gap = None
    if data.train is not None and len((train := scorer.score(data.train, "train")).positions):
        on_train = summary_of(train, mask_id, density["train"], how)
        gap = gap_between(test, train, how)
    settings = {name: getattr(section, name) for name in _SHOWN} | {
        "bootstrap": section.bootstrap.model_dump(),
        "train_samples": 0 if data.train is None else len(data.train),
    }
    starts = word_starts(read_json(model / "tokenizer.json"))
    figures = EvaluationFigures(
        run=run,
        test=summary_of(test, mask_id, density["test"], how),
        train=on_train,
        gap=gap,
        baselines=baselines(data, special, test, mask_id, density["test"], how),
        **_parts(test, data, section, mask_id, starts),
        samples=extreme_samples(test, data.test, tokenizer, section.samples),
        minimal_pairs=pairs,
        verdicts=[],
        group_by=splits["test"].group_by,
        group_sums=group_sums(test),
        settings=settings,
        digests={
            "model": file_sha256(model / "model.safetensors"),
            "tokenizer": file_sha256(model / "tokenizer.json"),
            "manifest": file_sha256(manifests["test"]),
        },
    )
    said = verdicts_on(figures, carved, len(data.test), splits["test"].num_samples)
    return replace(figures, verdicts=said)


def _parts(test: Scored, data: EvaluationData, section: Evaluation, mask_id: int, starts) -> dict:
    """The figures that divide the predictions; `starts` [vocabulary]: the ids that start a word."""
    asked, scores = test.positions, test.scores
    initial, shown_as = starts[asked.truth], asked.shown_as(mask_id)
    confidence, bins = scores.top_probability, section.calibration_bins
    counts, uppers = data.counts.unigram, section.frequency_bands
    return {
        "frequency_bands": frequency_bands(asked.truth, scores, counts, uppers),
        "positions": position_bins(asked.position, scores, data.sequence_length),
        "word_initial": {"initial": part(scores, initial), "continuation": part(scores, ~initial)},
        "shown_as": {name: part(scores, shown_as == i) for i, name in enumerate(SHOWN_AS)},
        "calibration": calibration_of(confidence, scores.correct, bins),
    }


def _opened(
    directory: Path, begins_document: int | None, accelerator: Mapping[str, Any], seed: int
) -> AnsweringModel:
    # Whatever the precision of the training, figures are computed in float32.
    exact = {"precision": "float32", "deterministic": True}
    devices = Accelerator.of_param({**accelerator, **exact})
    if begins_document is not None or framework_of(directory) == "jax":
        from mlm.evaluation import in_jax

        return in_jax.open_model(directory, devices, begins_document)
    from mlm.evaluation import in_tensorflow

    return in_tensorflow.open_model(directory, devices, seed)
