"""Section `model` of the configuration: what can be told of it before TensorFlow is loaded."""

import difflib
import json
from pathlib import Path

#: Families whose TensorFlow code counts positions over ids other than 1, from 2 on.
ROBERTA_FAMILY = ("roberta", "xlm-roberta", "roberta-prelayernorm", "camembert")

#: Every model_type with a TensorFlow masked language model in the pinned transformers. Held
#: here since the import of transformers' own list takes longer than all other checks.
FAMILIES = (
    *("albert", "bert", "camembert", "convbert", "deberta", "deberta-v2", "distilbert"),
    *("electra", "esm", "flaubert", "funnel", "layoutlm", "longformer", "mobilebert", "mpnet"),
    *("rembert", "roberta", "roberta-prelayernorm", "roformer", "tapas", "xlm", "xlm-roberta"),
)

#: Families that `initialisation: neighbour_heads` is made for: a table of absolute positions
#: and a first layer of its own.
NEIGHBOUR_FAMILIES = (
    *("roberta", "xlm-roberta", "roberta-prelayernorm", "bert", "distilbert", "electra"),
)


def model_problems(section: dict, defaults: dict, sequence_length: int) -> list[str]:
    """What is wrong with the resolved section, one line each; `defaults` as in `model_of_jobs`.

    What the sizes of an architecture from the Hub come to is seen when the model is built.
    """
    hub, family, problems = section["hub"], section["family"], []
    if hub["id"] and section["config_file"]:
        problems.append("model: config_file and hub.id are both set; one of them is expected")
    if hub["id"] and not hub["revision"]:
        problems.append("model.hub.revision: missing; pin the Hub id to a commit")
    fields = _overrides(section, defaults)
    if section["config_file"]:
        content, problem = _read(section["config_file"])
        if problem:
            return [*problems, problem]
        family, where = content["model_type"], f"model.config_file: {section['config_file']}: "
        fields = content | fields
    elif hub["id"]:
        return problems
    else:
        where = "model.family: "
    if family not in FAMILIES:
        close = difflib.get_close_matches(str(family), FAMILIES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(FAMILIES)}"
        return [
            *problems,
            f"{where}{family!r} has no TensorFlow masked language model in this version of "
            f"transformers; {hint}",
        ]
    if section["initialisation"] == "neighbour_heads" and family not in NEIGHBOUR_FAMILIES:
        problems.append(
            f"model.initialisation: neighbour_heads is not made for {family}: it needs a table of "
            f"absolute positions and a first layer of its own ({', '.join(NEIGHBOUR_FAMILIES)}). "
            "Set standard"
        )
    return problems + _size_problems(family, fields, sequence_length)


def _size_problems(family: str, fields: dict, sequence_length: int) -> list[str]:
    problems = []
    width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and (heads < 1 or width % heads):
        problems.append(f"model.config: {heads} attention heads do not divide hidden_size {width}")
    positions = fields.get("max_position_embeddings")
    needed = sequence_length + (2 if family in ROBERTA_FAMILY else 0)
    if isinstance(positions, int) and positions < needed:
        problems.append(too_few_positions(family, positions, sequence_length, needed))
    return problems


def too_few_positions(family: str, positions: int, sequence_length: int, needed: int) -> str:
    """The problem of a table of positions that is too short, in words."""
    because = " (positions of this family start at 2)" if family in ROBERTA_FAMILY else ""
    return (
        f"model.config.max_position_embeddings: {positions}; sequences of {sequence_length} "
        f"tokens need at least {needed}{because}"
    )


def model_of_jobs(section: dict, defaults: dict) -> dict:
    """The resolved section as jobs get it.

    In place of the config file's name stands its content, so that its edit trains again and
    its state is not taken for another's. `defaults` are those of `model.config`: they describe
    the embedded model, and would otherwise replace the sizes of a file or a Hub id unasked.
    """
    content = _read(section["config_file"])[0] if section["config_file"] else None
    return section | {"config": _overrides(section, defaults), "config_file": content}


def _overrides(section: dict, defaults: dict) -> dict:
    """The fields of `model.config` that count: null leaves one to the family or the file."""
    elsewhere = section["config_file"] or section["hub"]["id"]
    return {
        key: value
        for key, value in section["config"].items()
        if value is not None and not (elsewhere and value == defaults.get(key))
    }


def _read(path: str) -> tuple[dict, str | None]:
    """The config file's content, and what is wrong with it, in words."""
    where = f"model.config_file: {path}: "
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, f"{where}no such file; a config.json of transformers is expected"
    except (OSError, ValueError) as error:
        return {}, f"{where}is not readable as JSON ({error})"
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        return {}, f"{where}names no model_type; a config.json of transformers is expected"
    return content, None
