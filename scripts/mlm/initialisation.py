"""Initial weights with which the first layer looks at neighbouring tokens from step one.

A small masked language model sits on a plateau, near the unigram loss, until some heads have
learned to attend to the neighbours; then its loss drops at once (Chen et al., "Sudden drops
in the loss", 2023, describe this for BERT). Trockman and Kolter ("Mimetic initialization of
self-attention layers", 2023) start attention from the shape that training gives it. Here:
the position table holds sinusoids, and heads of the first layer compare them, rotated by an
offset, so that each attends to the token before, after, or two away. Shapes and names of all
weights stay what they are.
"""

from dataclasses import dataclass

import numpy as np

from mlm.errors import MlmError


@dataclass(frozen=True)
class NeighbourHeads:
    """Strengths of the initialisation; the defaults were found by experiment."""

    word_deviation: float = 0.1
    position_amplitude: float = 0.14
    sharpness: float = 1.5
    noise: float = 0.02
    value_deviation: float = 0.09
    offsets: tuple[int, ...] = (-1, 1, -2, 2)


#: By model_type: the attribute that is the encoder, and where its first position is.
_FAMILIES = {
    "roberta": ("roberta", 2),
    "xlm-roberta": ("roberta", 2),
    "roberta-prelayernorm": ("roberta_prelayernorm", 2),
    "bert": ("bert", 0),
    "distilbert": ("distilbert", 0),
    "electra": ("electra", 0),
}


def sinusoids(length: int, width: int) -> np.ndarray:
    """[length, width] sinusoids; columns 2i and 2i+1 are sine and cosine of one frequency.

    After Vaswani et al., "Attention is all you need" (2017), section 3.5.
    """
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, np.newaxis] * frequencies[np.newaxis, :]
    table = np.empty((length, 2 * len(frequencies)))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table[:, :width]


def _attention_of_first_layer(model):
    """query, key, value and output layers of the first self-attention."""
    encoder = getattr(model, _FAMILIES[model.config.model_type][0])
    if model.config.model_type == "distilbert":
        attention = encoder.transformer.layer[0].attention
        return attention.q_lin, attention.k_lin, attention.v_lin, attention.out_lin
    attention = encoder.encoder.layer[0].attention
    inner = attention.self_attention
    output = attention.dense_output
    return inner.query, inner.key, inner.value, output.dense


def neighbour_heads(model, seed: int, strengths: NeighbourHeads | None = None) -> None:
    """Overwrite embeddings and first attention layer of a freshly built model, in place.

    Raises MlmError for families with other attention: positions that are not a learned
    table, a narrower embedding, or layers that share their weights (ALBERT).
    """
    strengths = strengths or NeighbourHeads()
    config = model.config
    width, heads = config.hidden_size, config.num_attention_heads
    if config.model_type not in _FAMILIES:
        raise MlmError(
            f"model.initialisation: neighbour_heads is not made for {config.model_type}: it needs "
            "a table of absolute positions and a first layer of its own. Set standard"
        )
    if getattr(config, "embedding_size", width) != width:
        raise MlmError(
            f"model.initialisation: neighbour_heads needs an embedding as wide as the layers, "
            f"found embedding_size {config.embedding_size} and hidden_size {width}. Set standard"
        )
    random = np.random.Generator(np.random.Philox(key=seed))
    encoder_name, first_position = _FAMILIES[config.model_type]
    embeddings = getattr(model, encoder_name).embeddings

    words = random.normal(0, strengths.word_deviation, embeddings.weight.shape)
    if first_position and config.pad_token_id is not None:
        words[config.pad_token_id] = 0
    embeddings.weight.assign(words.astype(np.float32))
    table = sinusoids(embeddings.position_embeddings.shape[0], width)
    embeddings.position_embeddings.assign((strengths.position_amplitude * table).astype(np.float32))

    query, key, value, output = _attention_of_first_layer(model)
    query_kernel, key_kernel = _neighbour_kernels(random, width, heads, strengths)
    for layer, kernel in ((query, query_kernel), (key, key_kernel)):
        layer.kernel.assign(kernel.astype(np.float32))
    for layer in (value, output):
        kernel = random.normal(0, strengths.value_deviation, layer.kernel.shape)
        layer.kernel.assign(kernel.astype(np.float32))


def _neighbour_kernels(random, width: int, heads: int, strengths: NeighbourHeads):
    """Query and key kernels [width, width], head h in columns h·width/heads and on.

    The key of a head copies the sine and cosine of the highest frequencies; its query copies
    them rotated by the head's offset d. Their product is the sum of cos(f·(s − t − d)) over
    the frequencies f, which is largest where the key's position s is t + d.
    """
    head_width = width // heads
    pairs = head_width // 2
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)[:pairs]
    query = random.normal(0, strengths.noise, (width, width))
    key = random.normal(0, strengths.noise, (width, width))
    for head in range(heads):
        offset = strengths.offsets[head % len(strengths.offsets)]
        start = head * head_width
        for pair, frequency in enumerate(frequencies):
            sine, cosine = 2 * pair, 2 * pair + 1
            columns = start + sine, start + cosine
            key[sine, columns[0]] += strengths.sharpness
            key[cosine, columns[1]] += strengths.sharpness
            turn = frequency * offset
            # sin(f(t+d)) and cos(f(t+d)) from sin(ft) and cos(ft).
            query[sine, columns[0]] += strengths.sharpness * np.cos(turn)
            query[cosine, columns[0]] += strengths.sharpness * np.sin(turn)
            query[sine, columns[1]] -= strengths.sharpness * np.sin(turn)
            query[cosine, columns[1]] += strengths.sharpness * np.cos(turn)
    return query, key
