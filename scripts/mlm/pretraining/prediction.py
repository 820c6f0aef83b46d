"""Logits at the masked positions only.

The projection onto the vocabulary is the largest product of a small model. Only a share of the
positions is predicted, so the hidden states are gathered there before the head runs
(the max_predictions_per_seq of BERT's first release). Families whose head cannot be called
apart get their full logits, gathered afterwards.
"""

from collections.abc import Callable

from mlm.foundations.framework import tf

Head = Callable[[tf.keras.Model, tf.Tensor], tf.Tensor]


def _distilbert_head(model, hidden):
    hidden = model.act(model.vocab_transform(hidden))
    return model.vocab_projector(model.vocab_layer_norm(hidden))


def _electra_head(model, hidden):
    return model.generator_lm_head(model.generator_predictions(hidden))


#: By model_type: the attribute that is the encoder, and what maps hidden states to logits.
_HEADS: dict[str, tuple[str, Head]] = {
    "roberta": ("roberta", lambda model, hidden: model.lm_head(hidden)),
    "xlm-roberta": ("roberta", lambda model, hidden: model.lm_head(hidden)),
    "roberta-prelayernorm": ("roberta_prelayernorm", lambda model, hidden: model.lm_head(hidden)),
    "bert": ("bert", lambda model, hidden: model.mlm(hidden)),
    "distilbert": ("distilbert", _distilbert_head),
    "albert": ("albert", lambda model, hidden: model.predictions(hidden)),
    "electra": ("electra", _electra_head),
}


def head_in_words(model_type: str) -> str:
    """Which head a family gets, for the log and the report."""
    if model_type in _HEADS:
        return "vocabulary projection at masked positions only"
    return f"plain head over all positions ({model_type} has no head that can be called apart)"


def masked_logits(model: tf.keras.Model, batch: dict, training: bool) -> tf.Tensor:
    """Logits [batch, slots, vocabulary] float32 at `batch["positions"]`.

    `batch` holds `input_ids` and `attention_mask` [batch, sequence] and `positions`
    [batch, slots], int32.
    """
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    model_type = model.config.model_type
    if model_type in _HEADS:
        encoder, head = _HEADS[model_type]
        hidden = getattr(model, encoder)(**inputs, training=training)[0]
        logits = head(model, tf.gather(hidden, batch["positions"], batch_dims=1))
    else:
        logits = model(inputs, training=training).logits
        logits = tf.gather(logits, batch["positions"], batch_dims=1)
    return tf.cast(logits, tf.float32)
