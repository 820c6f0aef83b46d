"""A training that begins with a published encoder's weights: `model.start_from`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlm.config.families import FAMILIES
from mlm.config.model import Model
from mlm.foundations.atomic import read_json
from mlm.foundations.errors import MlmError
from mlm.model.architecture import Architecture
from mlm.model.model_files import Checkpoint, fitting
from mlm.tokenizer.pieces import pieces_by_id


@dataclass(frozen=True)
class Begun:
    """The names of weights that a run's checkpoint lacks, and of those that its model lacks."""

    missing: list[str]
    unexpected: list[str]


@dataclass(frozen=True)
class WarmStart:
    """The checkpoint that a run begins with."""

    name: str
    checkpoint: Checkpoint

    @classmethod
    def of(cls, model: Model, tokenizer_json: str) -> "WarmStart | None":
        """Return that of a run with section `model` and this tokenizer; None if it starts from
        scratch. Raises MlmError if the checkpoint cannot be read or has another vocabulary."""
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
        """The `fresh` weights under the checkpoint's, which may lack a head, or MlmError."""
        names, stored = architecture.names, dict(self.checkpoint.weights)
        prefix = FAMILIES[architecture.family].encoder_prefix
        for name in (f"{names.words}.weight", names.decoder_bias):
            if name in stored:
                # Published tables may be padded to a round number of rows.
                stored[name] = stored[name][: len(fresh[name])]
        missing = sorted(fresh.keys() - stored.keys())
        heads = [name for name in missing if not name.startswith(prefix)]
        weights = fitting(stored, architecture, f"model.start_from: {self.name}", heads)
        unexpected = sorted(stored.keys() - fresh.keys())
        return fresh | weights, Begun(missing, unexpected)
