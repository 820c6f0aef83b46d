"""Section `model` of the configuration: what can be told of it before TensorFlow is loaded."""

import difflib
import json
from pathlib import Path

#: Families whose TensorFlow code counts positions over ids other than 1, from 2 on.
ROBERTA_FAMILY = (
    *("roberta", "xlm-roberta", "roberta-prelayernorm", "camembert", "longformer", "mpnet"),
)

#: Every model_type whose TensorFlow masked language model, in the pinned transformers, exports to
#: weights that PyTorch opens with the same logits. Held here since the import of transformers'
#: own list takes longer than all other checks.
FAMILIES = (
    *("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "flaubert"),
    *("layoutlm", "longformer", "mobilebert", "mpnet", "rembert", "roberta"),
    *("roberta-prelayernorm", "roformer", "xlm", "xlm-roberta"),
)

#: Families with such a model that are refused, and why.
REFUSED_FAMILIES = {
    "convbert": "its separable convolutions are exported in a shape that PyTorch does not open",
    "esm": "two of its weights have one name in the exported file",
    "funnel": "the exported weights give other logits in PyTorch",
    "tapas": "it reads tables, not text",
}

#: Families whose dropout draws from a generator that no saved state can hold.
UNSAVED_DROPOUT = ("deberta", "deberta-v2")

#: Fields of the transformers configuration that the workflow itself sets.
SET_BY_THE_WORKFLOW = (
    *("model_type", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
    *("pad_token_id", "tie_word_embeddings"),
)
_COUNTS = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("embedding_size", "vocab_size", "max_position_embeddings"),
)
_SHARES = ("hidden_dropout_prob", "attention_probs_dropout_prob")

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
    problems += [
        f"model.config.{name}: the workflow sets it itself, from tokenizer and family; leave it out"
        for name in SET_BY_THE_WORKFLOW
        if name in fields
    ]
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
    if reason := unfit_family(family):
        return [*problems, where + reason]
    if section["initialisation"] == "neighbour_heads" and family not in NEIGHBOUR_FAMILIES:
        problems.append(not_for_neighbour_heads(family))
    return problems + _size_problems(family, fields, sequence_length)


def unfit_family(family: str) -> str | None:
    """Why no model of this model_type is trained here, in words; None where it is."""
    if family in REFUSED_FAMILIES:
        return f"{family!r} is not supported: {REFUSED_FAMILIES[family]}; choose another"
    if family in FAMILIES:
        return None
    close = difflib.get_close_matches(str(family), FAMILIES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(FAMILIES)}"
    return f"{family!r} is no masked language model of transformers in TensorFlow; {hint}"


def not_for_neighbour_heads(family: str) -> str:
    """Why this model_type, none of NEIGHBOUR_FAMILIES, cannot have the initialisation."""
    return (
        f"model.initialisation: neighbour_heads is not made for {family}: it needs a table of "
        f"absolute positions and a first layer of its own ({', '.join(NEIGHBOUR_FAMILIES)}). "
        "Set standard"
    )


def _size_problems(family: str, fields: dict, sequence_length: int) -> list[str]:
    problems = [
        f"model.config.{name}: found {fields[name]!r}, expected a whole number from 1 on"
        for name in _COUNTS
        if name in fields and not (type(fields[name]) is int and fields[name] >= 1)
    ]
    problems += [
        f"model.config.{name}: found {fields[name]!r}, expected a number from 0 to less than 1"
        for name in _SHARES
        if name in fields and not (type(fields[name]) in (int, float) and 0 <= fields[name] < 1)
    ]
    if problems:
        return problems
    width, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    if width and heads and width % heads:
        problems.append(f"model.config: {heads} attention heads do not divide hidden_size {width}")
    positions = fields.get("max_position_embeddings")
    if positions and (problem := too_few_positions(family, positions, sequence_length)):
        problems.append(problem)
    return problems


def first_position(family: str) -> int:
    """The position of a sequence's first token: so many rows of the table lie before it."""
    return 2 if family in ROBERTA_FAMILY else 0


def too_few_positions(family: str, positions: int, sequence_length: int) -> str | None:
    """What is wrong with a table of so many positions, in words; None where it suffices."""
    first = first_position(family)
    needed = sequence_length + first
    if positions >= needed:
        return None
    because = f" (positions of this family start at {first})" if first else ""
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
