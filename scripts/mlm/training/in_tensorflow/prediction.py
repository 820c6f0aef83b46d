"""Logits at the masked positions only, as in BERT's first release: hidden states are gathered
before the head."""

from collections.abc import Callable

from mlm.foundations.tensorflow_setup import tf

#: A head before its last product, states · tableᵀ + bias: `states` [batch, slots, width] in the
#: precision of the products, `table` [vocabulary, width] and `bias` [vocabulary], float32.
Projection = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def _roberta(model, hidden) -> Projection:
    head = model.lm_head
    states = head.layer_norm(head.act(head.dense(hidden)))
    return states, head.decoder.weight, head.bias


def _bert(model, hidden) -> Projection:
    head = model.mlm.predictions
    return head.transform(hidden_states=hidden), head.input_embeddings.weight, head.bias


def _distilbert(model, hidden) -> Projection:
    head = model.vocab_projector
    states = model.vocab_layer_norm(model.act(model.vocab_transform(hidden)))
    return states, head.input_embeddings.weight, head.bias


def _albert(model, hidden) -> Projection:
    head = model.predictions
    states = head.LayerNorm(head.activation(head.dense(hidden)))
    return states, head.decoder.weight, head.decoder_bias


def _electra(model, hidden) -> Projection:
    head = model.generator_lm_head
    return model.generator_predictions(hidden), head.input_embeddings.weight, head.bias


#: Families whose layers are BERT's: attention, then two dense layers, position by position.
_BERT_LAYERS = ("roberta", "camembert", "xlm-roberta", "roberta-prelayernorm", "bert")
#: By model_type, the head of hidden states.
_HEADS: dict[str, Callable[[tf.keras.Model, tf.Tensor], Projection]] = {
    **dict.fromkeys(_BERT_LAYERS, _roberta),
    "bert": _bert,
    "distilbert": _distilbert,
    "albert": _albert,
    "electra": _electra,
}


def _hidden_at_positions(model, encoder, batch: dict, training: bool) -> tf.Tensor:
    """What `encoder`, of BERT's layers, gives at the predicted positions: [batch, slots, width].
    Its last layer reads all positions and computes these alone."""
    hidden = encoder.embeddings(input_ids=batch["input_ids"], training=training)
    unseen = 1 - tf.cast(batch["attention_mask"], hidden.dtype)[:, tf.newaxis, tf.newaxis, :]
    settings = {
        "attention_mask": unseen * tf.constant(-10_000, hidden.dtype),
        "head_mask": None,
        "encoder_hidden_states": None,
        "encoder_attention_mask": None,
        "past_key_value": None,
        "output_attentions": False,
        "training": training,
    }
    *layers, last = encoder.encoder.layer
    for layer in layers:
        hidden = layer(hidden_states=hidden, **settings)[0]
    attended = _attended(last.attention, hidden, batch["positions"], settings)
    hidden = last.bert_output(
        hidden_states=last.intermediate(hidden_states=attended),
        input_tensor=attended,
        training=training,
    )
    if model.config.model_type == "roberta-prelayernorm":
        hidden = encoder.LayerNorm(inputs=hidden)
    return hidden


def _attended(attention, hidden, positions, settings: dict) -> tf.Tensor:
    """What `attention`, of BERT's, adds up at `positions` alone: [batch, slots, width]."""
    own, training = attention.self_attention, settings["training"]
    read = attention.LayerNorm(hidden) if hasattr(attention, "LayerNorm") else hidden

    def at(x):
        return tf.gather(x, positions, batch_dims=1)

    def heads(x):
        return own.transpose_for_scores(x, tf.shape(x)[0])

    query, key, value = heads(own.query(at(read))), heads(own.key(read)), heads(own.value(read))
    scores = tf.matmul(query / tf.cast(own.sqrt_att_head_size, query.dtype), key, transpose_b=True)
    shares = own.dropout(tf.nn.softmax(scores + settings["attention_mask"]), training=training)
    found = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
    found = tf.reshape(found, [-1, positions.shape[1], own.all_head_size])
    return attention.dense_output(hidden_states=found, input_tensor=at(hidden), training=training)


def masked_projection(model: tf.keras.Model, batch: dict, training: bool) -> Projection:
    """The head at `batch["positions"]`."""
    model_type = model.config.model_type
    encoder = getattr(model, model.base_model_prefix)
    if model_type in _BERT_LAYERS and not model.config.is_decoder:
        hidden = _hidden_at_positions(model, encoder, batch, training)
    else:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        hidden = encoder(**inputs, training=training)[0]
        hidden = tf.gather(hidden, batch["positions"], batch_dims=1)
    return _HEADS[model_type](model, hidden)


def masked_logits(model: tf.keras.Model, batch: dict, training: bool) -> tf.Tensor:
    """Logits [batch, slots, vocabulary] float32 at `batch["positions"]` [batch, slots] int32, of
    `input_ids` and `attention_mask` [batch, sequence]."""
    states, table, bias = masked_projection(model, batch, training)
    products = tf.einsum("bsw,vw->bsv", states, tf.cast(table, states.dtype))
    return tf.cast(products, tf.float32) + bias
