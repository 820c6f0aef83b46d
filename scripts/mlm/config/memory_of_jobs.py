"""How much memory a training, an evaluation and the making of a tokenizer take, estimated before
they run, for `mem_mb` of their rules: too high rather than too low, and without a built model."""

import json
import math

from mlm.config.evaluation import Evaluation
from mlm.config.families import FAMILIES
from mlm.config.model import Model
from mlm.config.pretraining import RunConfiguration
from mlm.config.tokenizer import Tokenizer

#: Parameters and ids of a model whose sizes are not known: more than published encoders have.
LARGEST_MODEL, LARGEST_VOCABULARY = 1_600_000_000, 256_000
#: The least that is asked for, and what Python and the frameworks take.
_LEAST_MB, _FRAMEWORKS_MB = 4000, 1500
#: Bytes of a parameter in training, in float32: weight, gradient, what an update holds beside them,
#: and a file's content while it is saved, measured with 58 million parameters; of each moment of
#: it; of its gradient, of which each thread has one; and as it is loaded: weight, content,
#: transposed copy.
_TRAINED_PARAMETER, _MOMENT, _GRADIENT, _LOADED_PARAMETER = 28, 4, 4, 12
#: Bytes of a token read from a shard, of one in an evaluated sample, of one that is predicted
#: there, and of one that is counted with its neighbours; all counts take at most `_MOST_COUNTS`.
_STORED_TOKEN, _EVALUATED_TOKEN, _PREDICTED_TOKEN, _COUNTED_TOKEN = 8, 60, 130, 130
_MOST_COUNTS = 3_900_000_000
#: Matrices of float32, as long as the vocabulary and 16 columns wider than the embeddings, that
#: exist at once while singular vectors are looked for.
_SUBSPACES = 8


def parameters(model: Model, vocabulary: int | None, sequence_length: int) -> int:
    """At least as many parameters as the model has; `vocabulary` is None if unknown."""
    fields, family = model.fields(), FAMILIES[model.model_type]
    sizes = family.read(fields)
    width, layers = sizes["width"], sizes["layers"]
    if not width or not layers:
        return LARGEST_MODEL
    inner = sizes["inner"] or 4 * width
    # A model with another vocabulary than its tokenizer's is refused.
    ids = vocabulary or fields.get("vocab_size") or LARGEST_VOCABULARY
    positions = fields.get("max_position_embeddings") or sequence_length + 2
    embedding = sizes.get("embedding") or width
    a_layer = 4 * width**2 + family.inner_products * width * inner + 20 * (width + inner)
    layers = 1 if family.shared_layers else layers
    return (ids + positions + 2 * width) * embedding + layers * a_layer + ids


def memory_of_tokenizer(section: Tokenizer, text: float) -> int:
    """MB of a tokenizer on `text` bytes of train."""
    return 2000 + int(20 * min(text, section.max_training_bytes) / 1e6)


def memory_of_training(run: RunConfiguration, vocabulary: int | None, tokens: int | None) -> int:
    """MB of a training with `vocabulary` ids on a train split of `tokens` (None: not known).

    Activations: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
    Models", 2022, equation 2, and what XLA sets aside beside them.
    """
    model, section, length = run.model, run.pretraining, run.sequence_length
    accelerator = run.accelerator
    replicas = (accelerator.virtual_replicas or 1) * (accelerator.processes or 1)
    on_host = accelerator.kind in ("auto", "cpu") or bool(accelerator.virtual_replicas)
    fields = model.fields()
    ids = vocabulary or fields.get("vocab_size") or LARGEST_VOCABULARY
    family = FAMILIES[model.model_type]
    sizes = family.read(fields)
    width = sizes["width"] or 2048
    a_parameter = _TRAINED_PARAMETER + _MOMENT * section.optimizer.kind.moments
    a_parameter += _GRADIENT * (accelerator.cpu_threads - 1) * on_host
    a_parameter += _GRADIENT * bool(model.start_from)  # the checkpoint's
    total = replicas * a_parameter * parameters(model, vocabulary, run.longest_row)
    samples = 2 * section.shuffle_window + (section.validation.samples or 0)
    total += samples * length * _STORED_TOKEN
    if on_host:
        heads = sizes["heads"] or width // 64 + 1
        inner = 6 * (sizes["inner"] or 4 * width) * family.inner_products
        layers, activations = sizes["layers"] or 48, []
        for phase in run.phases:
            row = phase.sequence_length
            enough = math.ceil(phase.mlm_probability * row) + 8
            predicted = min(section.masking.slots or enough, row)
            # Logits, their softmax and their gradient.
            a_row = row * layers * (60 * width + inner + 14 * heads * row) + predicted * ids * 12
            activations.append(phase.per_replica_batch_size * a_row)
        total += replicas * max(activations)
    if model.initialisation.embeddings == "cooccurrence":
        total += _counts(tokens) + 4 * _SUBSPACES * ids * (width + 16)
    return _megabytes(total)


def memory_of_evaluation(
    run: RunConfiguration, section: Evaluation, vocabulary: int | None, train: int | None
) -> int:
    """MB of an evaluation by `section`, with a train split of so many tokens (None: not known)."""
    a_prediction = _PREDICTED_TOKEN + _EVALUATED_TOKEN / section.mlm_probability
    total = _LOADED_PARAMETER * parameters(run.model, vocabulary, run.sequence_length)
    return _megabytes(total + _counts(train) + 2 * section.max_tokens * a_prediction)


def tokens_of(manifest: str) -> int:
    """Places for tokens in the samples of the manifest's split, padding included."""
    with open(manifest, encoding="utf-8") as handle:
        described = json.load(handle)
    return described["num_samples"] * described["sequence_length"]


def _counts(tokens: int | None) -> int:
    return _MOST_COUNTS if tokens is None else min(_COUNTED_TOKEN * tokens, _MOST_COUNTS)


def _megabytes(total: float) -> int:
    return max(_LEAST_MB, _FRAMEWORKS_MB + int(total / 1e6))
