"""What a model that is being trained would put in the place of a mask."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mlm.tokenizer.encoding import Encoder
from mlm.training.engine import Engine
from mlm.training.resolved_run import Pretraining

#: The function (ids [tokens], place) -> logits float32 [vocabulary] there.
LogitsAt = Callable[[np.ndarray, int], np.ndarray]


class Prompts:
    """Sentences with one mask each, encoded once; those that cannot be asked are left out."""

    def __init__(self, texts: Sequence[str], tokenizer: str | Path, longest: int):
        from tokenizers import Tokenizer

        self._encoder, whole = Encoder.load(tokenizer), Tokenizer.from_file(str(tokenizer))
        self._mask = self._encoder.special_ids.mask
        encoded = {text: whole.encode(text).ids for text in texts}
        self._encoded = {
            text: ids
            for text, ids in encoded.items()
            if ids.count(self._mask) == 1 and len(ids) <= longest
        }

    @property
    def mask_token(self) -> str:
        return self._encoder.special_tokens["mask"]

    def guesses(self, logits_at: LogitsAt, top_k: int) -> dict[str, list[tuple[str, float]]]:
        """The `top_k` most probable tokens for each prompt, with their probabilities."""
        found = {}
        for text, ids in self._encoded.items():
            logits = logits_at(np.array(ids, np.int32), ids.index(self._mask)).astype(np.float64)
            probabilities = np.exp(logits - logits.max())
            probabilities /= probabilities.sum()
            # The model may have more rows than the tokenizer has ids.
            known = probabilities[: self._encoder.vocabulary_size]
            best = np.argsort(-known, kind="stable")[:top_k].tolist()
            found[text] = [
                (self._encoder.decode([i], skip_special_tokens=False), float(probabilities[i]))
                for i in best
            ]
        return found


def logits_of(engine: Engine, framework: str, run: Pretraining) -> LogitsAt:
    """The model of `engine` as it stands; `framework` is its accelerator's."""
    if framework == "tensorflow":
        from mlm.foundations.framework import tf
        from mlm.training.in_tensorflow.prediction import masked_logits as logits_in_tensorflow

        def in_tensorflow(ids, place):
            batch = {"input_ids": ids[None], "attention_mask": np.ones_like(ids[None])}
            batch = {name: tf.constant(value) for name, value in batch.items()}
            batch["positions"] = tf.constant([[place]])
            return logits_in_tensorflow(engine.model, batch, training=False).numpy()[0, 0]

        return in_tensorflow

    from mlm.model.architecture import Architecture
    from mlm.model.network import hidden_states, masked_logits

    weights = engine.exported().weights
    architecture = Architecture.of(run.model_config.to_dict())

    def in_jax(ids, place):
        hidden = hidden_states(weights, architecture, ids[None], np.ones_like(ids[None]))
        return np.asarray(masked_logits(weights, architecture, hidden[0, place]))

    return in_jax
