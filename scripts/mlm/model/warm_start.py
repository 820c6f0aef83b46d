"""A training that begins with a published encoder's weights: `model.start_from`."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlm.config.model import ModelOfRun
from mlm.foundations.atomic import read_json
from mlm.foundations.digests import value_sha256
from mlm.foundations.errors import MlmError
from mlm.model.carried_vocabulary import CarriedVocabulary, Vocabulary
from mlm.model.checkpoints import Checkpoint, encoder_prefix, weights_beyond
from mlm.tokenizer.encoding import SPECIAL_NAMES, Encoder, token_text
from mlm.tokenizer.pretrained import load_pretrained


@dataclass(frozen=True)
class Begun:
    """What a run's weights began with: names that the checkpoint lacks, and that the model lacks;
    the ids whose embeddings nothing gave, bool [vocabulary]; whether the output bias stays."""

    missing: list[str]
    unexpected: list[str]
    left: np.ndarray
    biased: bool


@dataclass(frozen=True)
class WarmStart:
    """The checkpoint that a run begins with, and how its vocabulary becomes the run's."""

    name: str
    checkpoint: Checkpoint
    vocabulary: CarriedVocabulary

    @classmethod
    def of(cls, model: ModelOfRun, encoder: Encoder, tokenizer_json: str) -> "WarmStart | None":
        """That of a run with section `model` and this tokenizer; None if it starts from scratch.
        MlmError if the checkpoint or its tokenizer cannot be read."""
        if not model.start_from:
            return None
        checkpoint = Checkpoint.read(model.start_from)
        if checkpoint.fields.get("tie_word_embeddings") is False:
            raise MlmError(
                f"model.start_from: {model.start_from} has tie_word_embeddings: false, which no "
                "model that is trained here has. Choose another checkpoint"
            )
        if checkpoint.tokenizer is None:
            raise MlmError(
                f"model.start_from: {model.start_from} holds no tokenizer, so that nobody knows "
                "what its embeddings are of. Put its tokenizer.json into the same directory (with "
                "transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…))"
            )
        directory = checkpoint.tokenizer.parent
        special = _special_tokens(directory)
        if None in special.values():
            # Files of the Hub may leave roles to the tokenizer's class.
            special |= load_pretrained(str(directory), None, "model.start_from")[1]
        try:
            old = Vocabulary(read_json(checkpoint.tokenizer), special)
        except Exception as error:  # tokenizers raises nothing narrower
            raise MlmError(
                f"model.start_from: {checkpoint.tokenizer} cannot be read as a tokenizer "
                f"({' '.join(str(error).split())[:300]}). Download it again"
            ) from None
        new = Vocabulary(read_json(tokenizer_json), encoder.special_tokens)
        vocabulary = CarriedVocabulary.between(old, new)
        # Of a directory, the place is nobody's business.
        place = Path(model.start_from)
        name = place.name if place.is_dir() else model.start_from
        return cls(name, checkpoint, vocabulary)

    def basis(self) -> dict[str, Any]:
        """What the weights that it gives follow from, JSON-like."""
        parts = value_sha256([[list(part) for part in ids] for ids in self.vocabulary.parts])
        return {"checkpoint": self.checkpoint.sha256, "vocabulary": parts}

    def over(
        self, fresh: dict[str, np.ndarray], words: str, biases: Collection[str]
    ) -> tuple[dict[str, np.ndarray], Begun]:
        """The `fresh` weights, by PyTorch's names, with all that the checkpoint has; `words` names
        the embeddings and `biases` those of the output. MlmError for another shape."""
        stored, found = self.checkpoint.weights, dict(fresh)
        missing = sorted(fresh.keys() - stored.keys())
        if words not in stored:
            raise MlmError(
                f"model.start_from: {self.name} has no {words}, the word embeddings of its family. "
                "Give the weights of the model that its config.json describes"
            )
        taken = (i for ids in self.vocabulary.parts for i, _ in ids)
        rows, last = len(stored[words]), max(taken, default=-1)
        if last >= rows:
            raise MlmError(
                f"model.start_from: {self.name} has {rows:,} word embeddings, but its "
                f"tokenizer.json has an id {last:,}. Both must be of one model"
            )
        prefix = encoder_prefix(self.checkpoint.fields["model_type"])
        if lost := [name for name in missing if name.startswith(prefix)]:
            raise MlmError(
                f"model.start_from: {self.name} has no floating-point values of {len(lost)} "
                f"weights of its encoder, {lost[0]} among them. Only a head may be missing; give "
                "all weights of the model that its config.json describes"
            )
        if beyond := weights_beyond(stored, fresh.keys(), prefix):
            raise MlmError(
                f"model.start_from: {self.name} has {len(beyond)} weights of layers that the model "
                f"of its config.json lacks, {beyond[0]} among them. Give weights and config.json "
                "of one model"
            )
        for name in sorted(fresh.keys() & stored.keys()):
            value = stored[name]
            if name == words:
                value = self.vocabulary.table(value, fresh[name])
            elif name in biases:
                value = self.vocabulary.bias(value)
            if value.shape != fresh[name].shape:
                raise MlmError(
                    f"model.start_from: {self.name}: {name}: found {value.shape}, expected "
                    f"{fresh[name].shape}. Give weights and config.json of one model"
                )
            found[name] = value
        return found, Begun(
            missing=missing,
            unexpected=sorted(stored.keys() - fresh.keys()),
            left=~self.vocabulary.begun,
            # Counts of a new vocabulary say more of it than the bias of another's pieces.
            biased=self.vocabulary.same and not set(biases) & set(missing),
        )


def _special_tokens(directory: Path) -> dict[str, str | None]:
    """The texts of the special tokens by name, as transformers saves them beside a tokenizer; None
    of those that are not there, or in no readable file."""
    said: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        with suppress(OSError, ValueError, TypeError):
            said |= read_json(directory / name)
    return {name: token_text(said.get(f"{name}_token")) for name in SPECIAL_NAMES}
