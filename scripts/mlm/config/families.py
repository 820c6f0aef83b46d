"""The families of models: which can be trained here, and what is special about some."""

from collections.abc import Mapping
from typing import Any

from mlm.config.fields import did_you_mean
from mlm.foundations.environment import installed_version

#: Families whose TensorFlow code counts positions over ids other than 1, from 2 on.
ROBERTA_FAMILY = ("roberta", "xlm-roberta", "roberta-prelayernorm", "camembert")
#: Those that TensorFlow trains, by the classes of transformers.
TENSORFLOW_FAMILIES = (
    *("albert", "bert", "camembert", "distilbert", "electra", "roberta"),
    *("roberta-prelayernorm", "xlm-roberta"),
)
#: Those that the encoder in JAX (`mlm.model`) has.
JAX_FAMILIES = ("bert", "modernbert", "roberta", "roberta-prelayernorm", "xlm-roberta")

#: Families that `model.initialisation.attention: neighbour_heads` is made for: a table of
#: absolute positions, or rotary ones, and a first layer of its own.
NEIGHBOUR_FAMILIES = (
    *("roberta", "xlm-roberta", "roberta-prelayernorm", "bert", "distilbert", "electra"),
    "modernbert",
)
#: Fields of the transformers configuration that `unfit_neighbour_heads` looks at.
NEIGHBOUR_FIELDS = ("hidden_size", "num_attention_heads", "embedding_size")


def engine_for(asked: str, family: str) -> str:
    """The engine that trains a family where `pretraining.engine` says `asked`. "auto" is jax for a
    family that it alone has, and where it alone is installed."""
    if asked != "auto":
        return asked
    jax_alone = installed_version("jax") and not installed_version("tensorflow")
    if family in JAX_FAMILIES and (jax_alone or family not in TENSORFLOW_FAMILIES):
        return "jax"
    return "tensorflow"


def unfit_family(family: str, asked: str) -> str | None:
    """Why the engine asked for trains no model of this model_type, in words; None: it does."""
    engine = engine_for(asked, family)
    trained = {"jax": JAX_FAMILIES, "tensorflow": TENSORFLOW_FAMILIES}
    if family in trained[engine]:
        return None
    if other := [name for name, families in trained.items() if family in families]:
        return (
            f"{family!r} is not trained by pretraining.engine: {engine}; set it to {other[0]}, or "
            f"choose one of {', '.join(trained[engine])}"
        )
    known = sorted({*TENSORFLOW_FAMILIES, *JAX_FAMILIES})
    hint = did_you_mean(family, known, f"there are: {', '.join(known)}")
    return f"{family!r} is not a masked language model that is trained here; {hint}"


def unfit_neighbour_heads(family: str, fields: Mapping[str, Any]) -> str | None:
    """Why `attention: neighbour_heads` is impossible with `fields` of the transformers
    configuration, as far as they are known, in words; None where it is possible."""
    width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    embedding = fields.get("embedding_size") or width
    if family not in NEIGHBOUR_FAMILIES:
        need = f"one of the families {', '.join(NEIGHBOUR_FAMILIES)}, found {family}"
    elif width and embedding != width:
        need = f"embeddings as wide as hidden_size {width}, found embedding_size {embedding}"
    elif heads == 1:
        need = "two heads or more, found 1"
    elif width and heads and width // heads < 4:
        need = f"heads at least 4 wide, found {width // heads}"
    else:
        return None
    return f"neighbour_heads needs {need}. Set standard"


def first_position(family: str) -> int:
    """The position of a sequence's first token: the number of rows of the table before it."""
    return 2 if family in ROBERTA_FAMILY else 0
