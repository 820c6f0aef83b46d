"""How much memory a training and an evaluation take, estimated before they run.

For `mem_mb` of their rules: simple sums that are to be too high rather than too low, and that
need neither TensorFlow nor a built model. Where the sizes of a model are not known here, a bound
stands for them; `--set-resources pretrain:mem_mb=8000` replaces the estimate.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from mlm.config.accelerator import Accelerator
from mlm.config.families import engine_for
from mlm.config.resolution import Settings, model_of_run, run_section
from mlm.config.tokenizer import expected_vocabulary

#: Parameters taken for a model whose sizes are known to the Hub alone: about those of
#: deberta-v2-xxlarge, the largest of a family that is trained here.
LARGEST_MODEL = 1_600_000_000
#: Ids taken for a vocabulary that is not known here; those of xlm-roberta and rembert, the largest
#: of a family that is trained here, have 250,002 and 250,300.
LARGEST_VOCABULARY = 256_000

#: What was asked for before anything was estimated. Python, TensorFlow and transformers take about
#: 800 MB.
_LEAST_MB = 4000
_FRAMEWORKS_MB = 1500
#: Counts of a token of train with its neighbours, while they are merged, and the tokens that are
#: counted at most: for the baselines of an evaluation, and for word embeddings from counts.
_COUNTED_TOKEN, COUNTED_TOKENS = 130, 30_000_000
#: Matrices of float32, as long as the vocabulary and as wide as the embeddings and 16 columns
#: more, that are there at once while singular vectors are looked for.
_SUBSPACES = 8

#: float32: weight, gradient and AdamW's two moments, and as the model is saved or exported, its
#: weights by PyTorch's names, transposed, and the file's content. Muon has one moment, and what its
#: iterations hold at one time comes to five copies of the gradient, when nothing is saved.
_TRAINED_PARAMETER = {"adamw": 16 + 12, "muon": 12 + 20}
#: In JAX, either optimizer: weight and two moments, what an update holds beside them, and the
#: content of a state's file while it is saved. As measured with 58 million parameters, of which
#: there were 36 bytes each.
_TRAINED_IN_JAX = 36
#: Of these, two moments, which devices may share.
_MOMENTS = 8
#: Bytes of an inner value of a layer, by the layer's matrices of them.
_INNER_IN_JAX = {2: 10, 3: 17}
#: As in `mlm.model.masked_loss`.
LOGITS_OVER_TABLE = 2
#: float32: weight, and the file's content and its transposed copy while it is loaded.
_LOADED_PARAMETER = 12
#: A stored token with its attention, as read from a shard.
_STORED_TOKEN = 8
#: A token of the test split: id, attention and group, twice while they are gathered, and what the
#: model answers where it is masked.
_SCORED_TOKEN = 40

#: Families whose vocabulary projection runs at the masked positions alone.
MASKED_HEADS = (
    *("albert", "bert", "distilbert", "electra", "roberta", "roberta-prelayernorm", "xlm-roberta"),
)
#: The names of one size in the families' own configurations.
_NAMES = {
    "hidden_size": ("hidden_size", "dim", "emb_dim", "d_model"),
    "num_hidden_layers": ("num_hidden_layers", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_heads"),
    "intermediate_size": ("intermediate_size", "hidden_dim"),
}
#: Matrices of a layer that are as wide as its inner values, where those are not two: a gated layer
#: has three.
_INNER = "inner_matrices"
#: Fields of a few families that make more of the same sizes, as transformers sets them.
_UNUSUAL = {
    "layoutlm": {"max_2d_position_embeddings": 1024},
    "mobilebert": {"embedding_size": 128, "num_feedforward_networks": 4},
    "modernbert": {_INNER: 3},
    "rembert": {"input_embedding_size": 256, "output_embedding_size": 1664},
}
#: Widths of tables of embeddings that are not the layers'.
_TABLES = ("embedding_size", "input_embedding_size", "output_embedding_size")


def _fields(model: Mapping[str, Any]) -> dict[str, Any]:
    """What section `model`, as jobs get it, says of the transformers configuration."""
    given = (model["config_file"] or {}) | model["config"]
    return _UNUSUAL.get(given.get("model_type", model["family"]), {}) | given


def _size(fields: Mapping[str, Any], size: str) -> int | None:
    values = (fields.get(name) for name in _NAMES[size])
    return next((value for value in values if type(value) is int), None)


def parameters(model: Mapping[str, Any], vocabulary: int | None, sequence_length: int) -> int:
    """At least as many parameters as the model has; `LARGEST_MODEL` where that is not known.

    `vocabulary` is the number of the tokenizer's ids, None where it is not known.
    """
    fields = _fields(model)
    width, layers = _size(fields, "hidden_size"), _size(fields, "num_hidden_layers")
    if not width or not layers:
        return LARGEST_MODEL
    inner = _size(fields, "intermediate_size") or 4 * width
    ids = _vocabulary(fields, vocabulary)
    positions = fields.get("max_position_embeddings") or sequence_length + 2
    positions += 4 * fields.get("max_2d_position_embeddings", 0)
    tables = width + sum(fields.get(name) or 0 for name in _TABLES)
    # Some attend with a second set of projections: eight squares of the width where BERT has four.
    squares = fields.get("num_feedforward_networks", 0) + 1
    matrices = fields.get(_INNER, 2)
    a_layer = 8 * width**2 + squares * matrices * width * inner + 20 * (width + inner)
    return (ids + positions) * tables + layers * a_layer + 2 * width**2 + ids


def _vocabulary(fields: Mapping[str, Any], vocabulary: int | None) -> int:
    # A model with another vocabulary than its tokenizer's is refused.
    return vocabulary or fields.get("vocab_size") or LARGEST_VOCABULARY


def memory_of_training(
    settings: Settings,
    run: str,
    tokens: int | None,
    replicas: int | None = None,
    on_host: bool | None = None,
) -> int:
    """MB of the training of `run`, for `mem_mb` of its job; see `training_mb`.

    `replicas` in this machine's memory and `on_host` are taken from section `accelerator` unless
    they were measured. Under Slurm, each task asks for its own memory.
    """
    section = settings["accelerator"]
    pretraining = run_section(settings, run, "pretraining")
    if replicas is None:
        here = section["processes"] if section["start"] == "here" else None
        replicas = (section["virtual_replicas"] or 1) * (here or 1)
    if on_host is None:
        on_host = section["kind"] in ("auto", "cpu") or bool(section["virtual_replicas"])
    return training_mb(
        model_of_run(settings, run),
        pretraining,
        _tokenizer_ids(settings),
        settings["shards"]["sequence_length"],
        replicas=replicas,
        on_host=on_host,
        lanes=Accelerator.of_param(section).lanes(pretraining["per_replica_batch_size"]),
        tokens=tokens,
    )


def memory_of_evaluation(settings: Settings, run: str, train: int | None, test: int | None) -> int:
    """MB of the evaluation of `run`, for `mem_mb` of its job; see `evaluation_mb`."""
    longest = run_section(settings, run, "evaluation")["max_tokens"]
    length = settings["shards"]["sequence_length"]
    model, ids = model_of_run(settings, run), _tokenizer_ids(settings)
    return evaluation_mb(model, ids, length, train, test, longest)


def _tokenizer_ids(settings: Settings) -> int | None:
    if settings["shards"]["source"] != "corpus":
        return None
    return expected_vocabulary(settings["tokenizer"])


def training_mb(
    model: Mapping[str, Any],
    pretraining: Mapping[str, Any],
    vocabulary: int | None,
    sequence_length: int,
    replicas: int,
    on_host: bool,
    lanes: int,
    tokens: int | None,
) -> int:
    """MB that the training of a run takes on a train split of `tokens` tokens (None: not known).

    A CPU computes `lanes` parts of a batch at the same time, each with gradients of its own.
    `replicas` of the model are in this machine's memory; `on_host` says that they compute there,
    so that their activations are there as well (Korthikanti et al., "Reducing Activation
    Recomputation in Large Transformer Models", 2022, equation 2, in float32; in JAX what XLA sets
    aside). `pretraining.rematerialise` takes nothing off: on a CPU XLA computes next to nothing
    again.
    """
    fields = _fields(model)
    family = fields.get("model_type", model["family"])
    in_jax = engine_for(pretraining["engine"], family) == "jax"
    optimizer = pretraining["optimizer"]["name"]
    a_parameter = _TRAINED_IN_JAX if in_jax else _TRAINED_PARAMETER[optimizer]
    if on_host and not in_jax:
        # float32: the gradients of each lane, but for the first.
        a_parameter += 4 * (lanes - 1)
    weights = replicas * a_parameter
    if pretraining["shard_optimizer"]:
        weights -= (replicas - 1) * _MOMENTS
    weights *= parameters(model, vocabulary, sequence_length)
    validation = pretraining["validation"]["samples"] or 0
    data = (2 * pretraining["shuffle_window"] + validation) * sequence_length * _STORED_TOKEN
    activations = 0
    if on_host:
        width = _size(fields, "hidden_size") or 2048
        layers = _size(fields, "num_hidden_layers") or 48
        heads = _size(fields, "num_attention_heads") or width // 64 + 1
        batch = pretraining["per_replica_batch_size"]
        a_token = layers * (68 * width + 10 * heads * sequence_length)
        logits = _slots(pretraining["masking"], sequence_length)
        if model["hub"]["id"] or family not in MASKED_HEADS:
            logits = sequence_length
        logits *= batch
        if in_jax:
            # Of dropout's masks as well; a block of the logits is there at a time.
            inner = _size(fields, "intermediate_size") or 4 * width
            inner *= _INNER_IN_JAX[fields.get(_INNER, 2)]
            a_token = layers * (60 * width + inner + 14 * heads * sequence_length)
            logits = min(logits, LOGITS_OVER_TABLE * width)
        # Logits, their softmax and their gradient.
        of_logits = logits * _vocabulary(fields, vocabulary) * 12
        activations = replicas * (batch * sequence_length * a_token + of_logits)
    total = weights + data + activations
    if model["initialisation"]["embeddings"] == "cooccurrence":
        columns = (_size(fields, "hidden_size") or 2048) + 16
        total += _counts(tokens) + 4 * _SUBSPACES * _vocabulary(fields, vocabulary) * columns
    return max(_LEAST_MB, _FRAMEWORKS_MB + int(total / 1e6))


def _slots(masking: Mapping[str, Any], sequence_length: int) -> int:
    enough = math.ceil(masking["mlm_probability"] * sequence_length) + 8
    return min(masking["slots"] or enough, sequence_length)


def evaluation_mb(
    model: Mapping[str, Any],
    vocabulary: int | None,
    sequence_length: int,
    train: int | None,
    test: int | None,
    max_tokens: int,
) -> int:
    """MB that the evaluation of a run takes, on splits of so many tokens (None: not known), of
    test `max_tokens` at most, and of train as many."""
    weights = _LOADED_PARAMETER * parameters(model, vocabulary, sequence_length)
    total = weights + _counts(train) + 2 * min(test or max_tokens, max_tokens) * _SCORED_TOKEN
    return max(_LEAST_MB, _FRAMEWORKS_MB + int(total / 1e6))


def _counts(tokens: int | None) -> int:
    """Bytes that counts of a train split of `tokens` tokens take."""
    return _COUNTED_TOKEN * min(COUNTED_TOKENS if tokens is None else tokens, COUNTED_TOKENS)


def tokens_of(manifest: str) -> int:
    """Places for tokens in the samples of the manifest's split, padding included."""
    with open(manifest, encoding="utf-8") as handle:
        described = json.load(handle)
    return described["num_samples"] * described["sequence_length"]
