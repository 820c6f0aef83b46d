"""The evaluation of an exported model: from shards to every figure of evaluation.json."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.accelerator import Accelerator
from mlm.config.evaluation import Evaluation
from mlm.evaluation.artefacts import (
    EvaluationFigures,
    MinimalPairs,
    Subset,
)
from mlm.evaluation.baselines import baselines
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_data import EvaluationData, read_evaluation_data, size_of
from mlm.evaluation.exported_model import check_vocabulary, framework_of, load_tokenizer
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
from mlm.evaluation.minimal_pairs import EncodedPairs, encoded_pairs, score_pairs
from mlm.evaluation.predictions import SHOWN_AS, Scored
from mlm.evaluation.scoring import AnsweringModel, Scorer
from mlm.evaluation.verdicts import verdicts_on
from mlm.foundations.atomic import read_json
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.samples.masking import MaskingPlan
from mlm.tokenizer.pieces import word_starts

#: Settings that the figures depend on and the file records.
_SHOWN = ("max_tokens", "mlm_probability", "mask_token", "random_token", "seed", "samples")
_SHOWN += ("frequency_bands", "calibration_bins")


@dataclass(frozen=True)
class Paths:
    """The model's directory, the splits' manifests, and the `root` of the shards' paths."""

    model: Path
    manifests: dict[str, Path]
    root: Path = Path()


def evaluate(
    run: str,
    paths: Paths,
    characters: dict[str, int],
    section: Evaluation,
    accelerator: Mapping[str, Any],
    attend: str = "sample",
    carved: bool = False,
) -> EvaluationFigures:
    """All figures of run `run`, not yet rounded.

    `characters` are those of the splits' text if known; `attend` is what attention stayed within
    in the training, "sample" or "document"; `carved` says that the test split was dealt from train
    document by document. Raises MlmError if shards, tokenizer and model do not belong together, or
    a split is empty.
    """
    manifests = {split: Manifest.read(path) for split, path in paths.manifests.items()}
    tokenizer = load_tokenizer(paths.model)
    special = sorted(set(tokenizer.all_special_ids))
    data = read_evaluation_data(
        manifests, paths.root, section.max_tokens, section.train_samples, len(tokenizer), special
    )
    encoded = encoded_pairs(section.minimal_pairs, tokenizer, data.sequence_length)
    within = tokenizer.cls_token_id if attend == "document" else None
    model = _opened(paths.model, within, accelerator, section.seed)
    check_vocabulary(model.vocabulary, tokenizer, paths.model)
    test, train, pairs = _scored(model, tokenizer, special, data, encoded, section)

    how, mask_id = section.bootstrap, tokenizer.mask_token_id
    resampling = Resampling(how.resamples, how.confidence, section.seed)
    sizes = {s: size_of(manifests[s], characters.get(s)) for s in ("train", "test")}
    on_test = summary_of(test, mask_id, sizes["test"], resampling)
    on_train = gap = None
    if train is not None:
        on_train = summary_of(train, mask_id, sizes["train"], resampling)
        gap = gap_between(test, train, resampling)
    compared = baselines(data, special, test, mask_id, sizes["test"], resampling)
    positions, scores = test.positions, test.scores
    starts = word_starts(read_json(paths.model / "tokenizer.json"))
    figures = EvaluationFigures(
        run=run,
        test=on_test,
        train=on_train,
        gap=gap,
        baselines=compared,
        frequency_bands=frequency_bands(
            positions.truth, scores, data.counts.unigram, section.frequency_bands
        ),
        positions=position_bins(positions.position, scores, data.sequence_length),
        **_parts(test, mask_id, starts),
        calibration=calibration_of(
            scores.top_probability, scores.correct, section.calibration_bins
        ),
        samples=extreme_samples(test, data.test, tokenizer, section.samples),
        minimal_pairs=pairs,
        verdicts=[],
        group_by=manifests["test"].group_by,
        group_sums=group_sums(test),
        settings={name: getattr(section, name) for name in _SHOWN}
        | {
            "bootstrap": how.model_dump(),
            "train_samples": 0 if data.train is None else len(data.train),
        },
        digests=_digests(paths),
    )
    said = verdicts_on(figures, carved, len(data.test), manifests["test"].num_samples)
    return replace(figures, verdicts=said)


def _parts(test: Scored, mask_id: int, starts: np.ndarray) -> dict[str, dict[str, Subset]]:
    """By whether a word starts (`starts` [vocabulary] says with which ids), and as what the model
    was shown the token."""
    initial, shown_as = starts[test.positions.truth], test.positions.shown_as(mask_id)
    return {
        "word_initial": {
            "initial": part(test.scores, initial),
            "continuation": part(test.scores, ~initial),
        },
        "shown_as": {n: part(test.scores, shown_as == i) for i, n in enumerate(SHOWN_AS)},
    }


def _digests(paths: Paths) -> dict[str, str]:
    """The sha256 of the weights, the tokenizer, and the test split's manifest."""
    return {
        "model": file_sha256(paths.model / "model.safetensors"),
        "tokenizer": file_sha256(paths.model / "tokenizer.json"),
        "manifest": file_sha256(paths.manifests["test"]),
    }


def _opened(
    directory: Path, begins_document: int | None, accelerator: Mapping[str, Any], seed: int
) -> AnsweringModel:
    """The model in `directory`, in the framework that has it.

    With `begins_document`, the token that each document begins with, attention stays within.
    """
    # Whatever the precision of the training, figures are computed in float32.
    exact = {"precision": "float32", "deterministic": True}
    devices = Accelerator.of_param({**accelerator, **exact})
    if begins_document is not None or framework_of(directory) == "jax":
        from mlm.evaluation import in_jax

        return in_jax.open_model(directory, devices, begins_document)
    from mlm.evaluation import in_tensorflow

    return in_tensorflow.open_model(directory, devices, seed)


def _scored(
    model: AnsweringModel,
    tokenizer,
    special: list[int],
    data: EvaluationData,
    pairs: EncodedPairs | None,
    section: Evaluation,
) -> tuple[Scored, Scored | None, MinimalPairs | None]:
    """The model's answers on test and on the sample of train, and the minimal pairs."""
    plan = MaskingPlan(
        mlm_probability=section.mlm_probability,
        mask_token=section.mask_token,
        random_token=section.random_token,
        mask_id=tokenizer.mask_token_id,
        special_ids=tuple(special),
        vocabulary_size=len(tokenizer),
        sequence_length=data.sequence_length,
    )
    scorer = Scorer(model, section.batch_size, plan, section.seed)
    test = scorer.score(data.test, "test")
    if not len(test.positions):
        raise MlmError(
            f"No token of the test split's {len(data.test)} samples was chosen for prediction. "
            "Raise evaluation.mlm_probability, or give the split more text."
        )
    train = None
    if data.train is not None:
        scored = scorer.score(data.train, "train")
        train = scored if len(scored.positions) else None
    return test, train, score_pairs(pairs, scorer.log_probabilities) if pairs else None
