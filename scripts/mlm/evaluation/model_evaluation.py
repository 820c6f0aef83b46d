"""The evaluation of an exported model: from shards to every figure of evaluation.json."""

from dataclasses import asdict, dataclass
from pathlib import Path

from mlm.evaluation.artefacts import Evaluation, EvaluationDigests, MinimalPairs
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.evaluation_parts import (
    all_verdicts,
    bands,
    baselines,
    extreme,
    group_sums,
    parts_of,
)
from mlm.evaluation.evaluation_settings import EvaluationSettings
from mlm.evaluation.exported_model import check_vocabulary, framework_of, load_tokenizer
from mlm.evaluation.metrics import summary
from mlm.evaluation.minimal_pairs import EncodedPairs, encoded_pairs, score_pairs
from mlm.evaluation.predictions import Scored
from mlm.evaluation.shard_reading import EvaluationData, read_evaluation_data, text_of
from mlm.foundations.atomic import read_json
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest
from mlm.tokenizer.pieces import word_starts
from mlm.training.accelerator_settings import AcceleratorSettings


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
    settings: EvaluationSettings,
    carved: bool = False,
) -> Evaluation:
    """All figures of run `run`, not yet rounded.

    `characters` are those of the splits' text where known; `carved` says that the test split was
    dealt from train document by document. Raises MlmError where shards,
    tokenizer and model do not belong together or a split is empty.
    """
    manifests = {split: Manifest.read(path) for split, path in paths.manifests.items()}
    tokenizer = load_tokenizer(paths.model)
    special = sorted(set(tokenizer.all_special_ids))
    data = read_evaluation_data(
        manifests, paths.root, settings.max_tokens, settings.train_samples, len(tokenizer), special
    )
    text = {s: text_of(manifests[s], characters.get(s)) for s in ("train", "test")}
    encoded = encoded_pairs(settings.minimal_pairs, tokenizer, data.sequence_length)
    test, train, pairs = _scored(paths.model, tokenizer, special, data, encoded, settings)

    resampling = Resampling(**asdict(settings.bootstrap), seed=settings.seed)
    mask_id = tokenizer.mask_token_id
    test_summary = summary(test, mask_id, text["test"], resampling)
    train_summary = None
    if train is not None:
        train_summary = summary(train, mask_id, text["train"], resampling)
    compared = baselines(
        data, special, test, mask_id, text["test"], manifests["train"].num_samples, resampling
    )
    starts = word_starts(read_json(paths.model / "tokenizer.json"))
    parts = parts_of(test, starts, mask_id, data.sequence_length, settings.calibration_bins)
    return Evaluation(
        run=run,
        test=test_summary,
        train=train_summary,
        baselines=compared,
        frequency_bands=bands(test, data.counts.unigram, settings.frequency_bands),
        **parts,
        samples=extreme(test, data.test, tokenizer, settings.samples),
        minimal_pairs=pairs,
        verdicts=all_verdicts(
            (test, test_summary),
            (train, train_summary) if train is not None else None,
            compared,
            parts["calibration"].expected_calibration_error,
            resampling,
            manifests["test"].group_by,
            carved,
            (len(data.test), manifests["test"].num_samples),
        ),
        group_by=manifests["test"].group_by,
        group_sums=group_sums(test),
        settings=settings.shown(),
        digests=EvaluationDigests(
            model=file_sha256(paths.model / "model.safetensors"),
            tokenizer=file_sha256(paths.model / "tokenizer.json"),
            manifest=file_sha256(paths.manifests["test"]),
        ),
    )


def _opened(directory: Path, begins_document: int | None, settings: EvaluationSettings):
    """The model in `directory`, an AnsweringModel, in the framework that has it.

    With `begins_document`, the token that each document begins with, attention stays within.
    """
    # Whatever the precision of the training, figures are computed in float32.
    accelerator = AcceleratorSettings.of({**settings.accelerator, "precision": "float32"})
    if begins_document is not None or framework_of(directory) == "jax":
        from mlm.evaluation import in_jax

        return in_jax.open_model(directory, accelerator, begins_document)
    from mlm.evaluation import in_tensorflow

    return in_tensorflow.open_model(directory, accelerator, settings.seed)


def _scored(
    directory: Path,
    tokenizer,
    special: list[int],
    data: EvaluationData,
    pairs: EncodedPairs | None,
    settings: EvaluationSettings,
) -> tuple[Scored, Scored | None, MinimalPairs | None]:
    """The model's answers on test and on the sample of train, and the minimal pairs."""
    from mlm.evaluation.scoring import Scorer
    from mlm.samples.masking import MaskingPlan

    within = settings.attend == "document"
    model = _opened(directory, tokenizer.cls_token_id if within else None, settings)
    check_vocabulary(model.vocabulary, tokenizer, directory)
    plan = MaskingPlan(
        mlm_probability=settings.mlm_probability,
        mask_token=settings.mask_token,
        random_token=settings.random_token,
        mask_id=tokenizer.mask_token_id,
        special_ids=tuple(special),
        vocabulary_size=len(tokenizer),
        sequence_length=data.sequence_length,
    )
    scorer = Scorer(model, settings.batch_size, plan, settings.seed)
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
