"""How examples are dealt: to folds, and within the training part of a fold to its validation part.

Groups, or examples of one text, are units that stay whole. They are ordered by a keyed hash inside
strata of the target and dealt in order, so that all parts have similar targets.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from mlm.finetuning.artefacts import Example, names_in
from mlm.foundations.errors import MlmError, listed

#: One unit in so many of the training part is for validation.
_VALIDATION_SHARE = 5


def assign_folds(examples: Sequence[Example], task: str, folds: int, seed: int) -> list[int]:
    """The fold of each example, from 0, whatever their order. MlmError for fewer units than folds
    need, and if all units of a class fall into one fold, which could not learn it from others."""
    needed = 4 if folds == 2 else folds  # Beside each fold, one to learn from and one to validate.
    if (units := len({e.unit for e in examples})) < needed:
        what = "groups" if any(e.group for e in examples) else "different texts"
        fewer = f", or set finetune.folds: {units}" if units > 2 else ""
        raise MlmError(
            f"finetune.folds: {folds} folds need at least {needed} {what}, and the data has "
            f"{units}. Give more data{fewer}"
        )
    fold_of = _dealt(examples, task, folds, seed)
    if task != "regression":
        _check_classes(examples, task, fold_of)
    return [fold_of[e.unit] for e in examples]


def validation_part(examples: Sequence[Example], task: str) -> np.ndarray:
    """Whether each of the training `examples` is in the validation part, a fifth of the units."""
    part_of = _dealt(examples, task, _VALIDATION_SHARE, seed=0)
    return np.array([part_of[e.unit] == 0 for e in examples])


def _dealt(examples: Sequence[Example], task: str, parts: int, seed: int) -> dict[str, int]:
    """The part of each unit. The stratum of a unit with classes or tags is the rarest of them; of
    one with numbers, a bin of their mean, bins of equal population and Sturges' number of them."""
    targets: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        targets[example.unit] += names_in(example.target, task)
    if task == "regression":
        means = {unit: sum(map(float, values)) / len(values) for unit, values in targets.items()}
        ordered = sorted(means, key=lambda unit: (means[unit], unit))
        bins = len(ordered).bit_length()
        strata = {unit: place * bins // len(ordered) for place, unit in enumerate(ordered)}
    else:
        units = Counter(name for names in targets.values() for name in set(names))
        strata = {u: min(names, key=lambda n: (units[n], n)) for u, names in targets.items()}

    def order(unit: str) -> tuple:
        key = b"fold %d" % seed
        return strata[unit], hashlib.blake2b(unit.encode(), digest_size=8, key=key).digest(), unit

    return {unit: place % parts for place, unit in enumerate(sorted(targets, key=order))}


def _check_classes(examples: Sequence[Example], task: str, fold_of: dict[str, int]) -> None:
    members: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        for name in set(names_in(example.target, task)):
            members[name].append(example)
    if len(members) < 2:
        raise MlmError(f"finetune.task: {task} needs two classes; the data has only {[*members]}")
    problems = []
    for name, held in sorted(members.items()):
        if len(folds := {fold_of[example.unit] for example in held}) == 1:
            names = sorted({e.group or e.id for e in held})
            shown = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            problems.append(f"{name!r}: fold {min(folds)} ({shown})")
    if problems:
        raise MlmError(
            "finetune.data: these classes are in one fold alone, so that they would be tested "
            f"there without having been learned:\n{listed(problems)}\nAdd groups or rows of each, "
            "merge it into another class, drop it, or set another seed"
        )
