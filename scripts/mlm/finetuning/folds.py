"""Which fold an example is held out in: stratified by the target, groups kept together.

Units (groups, or examples of one text) are ordered by a keyed hash inside strata of the target and
dealt to the folds in order. Strata of a number are bins of equal population, as many as Sturges'
rule gives.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from mlm.finetuning.tables import Example
from mlm.foundations.errors import MlmError, listed


def assign_folds(examples: Sequence[Example], task: str, folds: int, seed: int) -> list[int]:
    """The fold of each example, from 0, whatever their order. MlmError for fewer units than folds,
    and if all units of a class fall into one fold, which would have nothing to learn it from."""
    units: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        units[example.unit].append(example)
    if len(units) < folds:
        what = "groups" if any(e.group for e in examples) else "different texts"
        raise MlmError(
            f"finetune.folds: {folds} folds need at least {folds} {what}, and the data has "
            f"{len(units)}. Give more data, or fewer folds"
        )
    if task == "classification":
        counted = {u: Counter(e.target for e in found) for u, found in units.items()}
        strata = {u: min(c, key=lambda t: (-c[t], t)) for u, c in counted.items()}
    else:
        strata = _bins({u: sum(float(e.target) for e in f) / len(f) for u, f in units.items()})

    def turn(unit: str) -> tuple:
        key = b"fold %d" % seed
        return strata[unit], hashlib.blake2b(unit.encode(), digest_size=8, key=key).digest(), unit

    fold_of = {unit: place % folds for place, unit in enumerate(sorted(units, key=turn))}
    if task == "classification":
        _check_classes(examples, fold_of)
    return [fold_of[e.unit] for e in examples]


def _bins(means: dict[str, float]) -> dict[str, int]:
    """The stratum of each unit: bins of equal population, at most Sturges' number of them."""
    ordered = sorted(means, key=lambda u: (means[u], u))
    number = len(ordered).bit_length()
    return {unit: place * number // len(ordered) for place, unit in enumerate(ordered)}


def _check_classes(examples: Sequence[Example], fold_of: dict[str, int]) -> None:
    examples_of: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        examples_of[example.target].append(example)
    if len(examples_of) < 2:
        raise MlmError(
            "finetune.task: classification needs two classes, and the data has only "
            f"{next(iter(examples_of))!r}"
        )
    problems = []
    for name, members in sorted(examples_of.items()):
        folds = {fold_of[example.unit] for example in members}
        if len(folds) == 1:
            names = sorted({e.group or e.id for e in members})
            shown = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            problems.append(f"{name!r}: fold {min(folds)} ({shown})")
    if problems:
        raise MlmError(
            "finetune.data: these classes are in one fold alone, so that they would be tested "
            f"there without having been learned:\n{listed(problems)}\nAdd groups or rows of each, "
            "merge it into another class, drop it, or set another seed, which deals the "
            "groups again"
        )
