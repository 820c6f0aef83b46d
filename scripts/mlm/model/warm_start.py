"""A training that begins with a published encoder's weights: `model.start_from`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model import Model
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.checkpoints import Checkpoint
from mlm.model.weights import weights_beyond
from mlm.tokenizer.pieces import pieces_by_id


@dataclass(frozen=True)
class Begun:
    """What a run's weights began with: names that the checkpoint lacks, and that the model lacks,
    and whether the output bias is the checkpoint's."""

    missing: list[str]
    unexpected: list[str]
    biased: bool


@dataclass(frozen=True)
class WarmStart:
    """The checkpoint that a run begins with."""

    name: str
    checkpoint: Checkpoint

    @classmethod
    def of(cls, model: Model, tokenizer_json: str) -> "WarmStart | None":
        """Return that of a run with section `model` and this tokenizer; None if it starts from
        scratch. Raises MlmError if the checkpoint or its tokenizer cannot be read, or if its
        vocabulary is another than the run's."""
        if not model.start_from:
            return None
        checkpoint = Checkpoint.read(model.start_from)
        if checkpoint.fields.get("tie_word_embeddings") is False:
            raise MlmError(
                f"model.start_from: {model.start_from} has tie_word_embeddings: false, which no "
                "model that is trained here has. Choose another checkpoint"
            )
        if not checkpoint.tokenizer.is_file():
            raise MlmError(
                f"model.start_from: {model.start_from} holds no tokenizer.json, so that nobody "
                "knows what its embeddings are of. Put it into the same directory"
            )
        files = checkpoint.tokenizer, tokenizer_json
        old, new = (pieces_by_id(read_json(file)) for file in files)
        if old != new:
            raise MlmError(
                f"model.start_from: {model.start_from} has another vocabulary ({len(old):,} ids) "
                f"than this run's tokenizer ({len(new):,}). Set tokenizer.kind: pretrained and "
                f"tokenizer.pretrained.path: {model.start_from}"
            )
        # Of a directory, the place is nobody's business.
        place = Path(model.start_from)
        return cls(place.name if place.is_dir() else model.start_from, checkpoint)

    def over(
        self, fresh: dict[str, np.ndarray], architecture: Architecture
    ) -> tuple[dict[str, np.ndarray], Begun]:
        """The `fresh` weights with all that the checkpoint has. MlmError for another shape."""
        family, names = architecture.family, architecture.names
        words, bias = f"{names.words}.weight", names.decoder_bias
        stored, weights = self.checkpoint.weights, dict(fresh)
        missing = sorted(fresh.keys() - stored.keys())
        prefix = FAMILIES[family].encoder_prefix
        if lost := [name for name in missing if name.startswith(prefix)]:
            raise MlmError(
                f"model.start_from: {self.name} has no floating-point values of {len(lost)} "
                f"weights of its encoder, {lost[0]} among them. Only a head may be missing; give "
                "all weights of the model that its config.json describes"
            )
        rows, needed = len(stored[words]), len(fresh[words])
        if rows < needed:
            raise MlmError(
                f"model.start_from: {self.name} has {rows:,} word embeddings, but its "
                f"tokenizer.json has {needed:,} ids. Both must be of one model"
            )
        if beyond := weights_beyond(stored, fresh.keys(), family):
            raise MlmError(
                f"model.start_from: {self.name} has {len(beyond)} weights of layers that the model "
                f"of its config.json lacks, {beyond[0]} among them. Give weights and config.json "
                "of one model"
            )
        for name in sorted(fresh.keys() & stored.keys()):
            value = stored[name]
            if name in (words, bias):
                # Published tables may be padded to a round number of rows.
                value = value[:needed]
            if value.shape != fresh[name].shape:
                raise MlmError(
                    f"model.start_from: {self.name}: {name}: found {value.shape}, expected "
                    f"{fresh[name].shape}. Give weights and config.json of one model"
                )
            weights[name] = value
        unexpected = sorted(stored.keys() - fresh.keys())
        return weights, Begun(missing, unexpected, biased=bias not in missing)
