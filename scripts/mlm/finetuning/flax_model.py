"""A pretrained model as a Flax sequence model, with proof that its weights arrived.

The exported file has PyTorch's names and layout. Flax's names differ by rule: `kernel` is a
transposed `weight`, `scale` and `embedding` are `weight`s as they stand.
"""

import json
from pathlib import Path

import numpy as np

from mlm.foundations.atomic import replacing, write_json
from mlm.foundations.errors import MlmError, reading

#: Flax modules that a masked language model does not have, and that start from chance.
HEADS = ("classifier", "pre_classifier", "pooler", "sequence_summary")
#: Fields by which the families name their dropouts.
_DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "classifier_dropout_prob",
    "dropout",
    "attention_dropout",
    "seq_classif_dropout",
)


def pytorch_name(path: tuple[str, ...]) -> str:
    """The name in PyTorch's layout of the Flax parameter at `path`."""
    last = {"kernel": "weight", "scale": "weight", "embedding": "weight"}.get(path[-1], path[-1])
    return ".".join((*path[:-1], last))


def pytorch_value(path: tuple[str, ...], value) -> np.ndarray:
    """The parameter at `path` as float32 in PyTorch's layout."""
    value = np.asarray(value, np.float32)
    return np.ascontiguousarray(value.T if path[-1] == "kernel" else value)


def sequence_configuration(directory: str | Path, labels: int, dropout: float):
    """The configuration in `directory` for `labels` outputs, with one dropout throughout.

    Raises MlmError where there is none, or of a family without a Flax sequence model.
    """
    from transformers import AutoConfig
    from transformers.models.auto.modeling_flax_auto import (
        FLAX_MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as KNOWN,
    )

    path = Path(directory) / "config.json"
    if not path.is_file():
        raise MlmError(f"{path} not found; the exported model of a run is expected there")
    with reading(path, "a model's configuration"):
        family = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    if family not in KNOWN:
        raise MlmError(
            f"{path}: fine-tuning knows no Flax sequence model of the family {family!r}. "
            f"Pretrain one of: {', '.join(sorted(KNOWN))}"
        )
    with reading(path, "a model's configuration"):
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
    config.num_labels = labels
    config.problem_type = "regression" if labels == 1 else "single_label_classification"
    for field in _DROPOUTS:
        if getattr(config, field, None) is not None:
            setattr(config, field, dropout)
    return config


def longest_sequence(config) -> int:
    """Tokens that the position table has room for; the RoBERTa family begins at pad + 1."""
    offset = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    return config.max_position_embeddings - offset


def random_model(config, seed: int, dtype):
    """The Flax sequence model of `config` with random weights, a function of `seed`."""
    from transformers import FlaxAutoModelForSequenceClassification

    return FlaxAutoModelForSequenceClassification.from_config(
        config, seed=seed, dtype=dtype, input_shape=(1, 2)
    )


def pretrained_model(directory: str | Path, config, seed: int, dtype):
    """The same with the weights in `directory`; only the head is random.

    transformers fills what it does not find with random numbers and at most warns, so that
    every other weight is compared with the file. Raises MlmError where one differs.
    """
    from transformers import FlaxAutoModelForSequenceClassification

    weights = Path(directory) / "model.safetensors"
    with reading(weights, "the weights of the model in config.json"):
        model = FlaxAutoModelForSequenceClassification.from_pretrained(
            directory, config=config, seed=seed, dtype=dtype, local_files_only=True
        )
    check_loaded(model.params, weights)
    return model


def check_loaded(parameters, file: str | Path) -> None:
    """Raise MlmError unless every parameter but the head's equals the one in `file`.

    `file` is a safetensors file with PyTorch's names and layout.
    """
    from flax.traverse_util import flatten_dict
    from safetensors.numpy import load_file

    with reading(file, "safetensors"):
        stored = load_file(file)
    missing, different = [], []
    for path, value in sorted(flatten_dict(parameters).items()):
        name = pytorch_name(path)
        if name not in stored:
            # A pooler belongs to the head where the masked model was trained without one.
            if not any(part in HEADS for part in path):
                missing.append(name)
        elif not np.array_equal(stored[name].astype(np.float32), pytorch_value(path, value)):
            different.append(name)
    if missing or different:
        problem = f"{len(missing)} weights of the Flax model are not in it"
        problem += f" and {len(different)} were not taken from it" if different else ""
        raise MlmError(
            f"{file}: {problem}, the first being {(missing + different)[0]}. The file is of "
            "another architecture than the config.json beside it, or in another layout than "
            "PyTorch's; export the model again"
        )


def write_flax_model(directory: str | Path, parameters, config) -> None:
    """Write model.safetensors (PyTorch's layout) and config.json, like the exported model."""
    from flax.traverse_util import flatten_dict
    from safetensors.numpy import save_file

    directory = Path(directory)
    weights = {pytorch_name(p): pytorch_value(p, v) for p, v in flatten_dict(parameters).items()}
    with replacing(directory / "model.safetensors") as temporary:
        save_file(dict(sorted(weights.items())), temporary, metadata={"format": "pt"})
    fields = config.to_dict() | {
        "architectures": [_pytorch_class(config)],
        "torch_dtype": "float32",
    }
    fields.pop("_name_or_path", None)
    write_json(directory / "config.json", fields)


def _pytorch_class(config) -> str:
    from transformers.models.auto.modeling_flax_auto import (
        FLAX_MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as KNOWN,
    )

    return KNOWN[config.model_type].removeprefix("Flax")
