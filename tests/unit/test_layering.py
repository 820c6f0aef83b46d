"""Packages stand in the order in which data flows, and import only from those before them."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from mlm.asking.past_run import SHOWING_MODULES
from mlm.foundations.code_digests import imported_names
from mlm.training.state_basis import computing_code

SCRIPTS = Path(__file__).parents[2] / "scripts"

#: A package may import from those above it. docs/architecture.md says what each holds.
ORDER = (
    *("foundations", "config", "corpus", "tokenizer", "samples", "model", "training"),
    *("evaluation", "finetuning", "preflight", "publishing", "asking", "check", "report"),
)


@cache
def names_in(text):
    assert not re.search(r"^\s*from \.", text, re.M), "a relative import is not followed"
    return imported_names(ast.parse(text))


@cache
def imports():
    """(module, imported module) of the library, also inside functions and as `python -m`."""
    return [
        (".".join(file.relative_to(SCRIPTS).with_suffix("").parts), name)
        for file in sorted((SCRIPTS / "mlm").rglob("*.py"))
        for name in names_in(file.read_text(encoding="utf-8"))
        if SCRIPTS.joinpath(*name.split(".")).with_suffix(".py").is_file()
    ]


def test_every_module_belongs_to_a_package_with_a_place():
    found = {file.relative_to(SCRIPTS / "mlm").parts for file in (SCRIPTS / "mlm").rglob("*.py")}
    assert {parts[0] for parts in found} == {*ORDER, "__init__.py"}


def test_packages_import_only_from_those_before_them():
    def place(module):
        return ORDER.index(module.split(".")[1])

    assert [f"{a} imports {b}" for a, b in imports() if place(a) < place(b)] == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {}
    for module, imported in imports():
        if module != imported:
            graph.setdefault(module, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_a_state_knows_all_code_that_computes_its_bits_and_no_other(framework):
    known = computing_code(framework)
    computing = {f"mlm.model.{framework}_ops", f"mlm.training.in_{framework}.engine"}
    computing |= {"mlm.config.families", "mlm.model.cooccurrence", "mlm.model.initialisation"}
    computing |= {"mlm.model.architecture", "mlm.model.masked_loss", "mlm.model.network"}
    computing |= {"mlm.training.optimizers", "mlm.training.resolved_run", "mlm.training.train_step"}
    assert known.keys() > computing | set(SHOWING_MODULES)
    others = {"mlm.training.loop", "mlm.training.saved_states", "mlm.training.model_card"}
    assert not known.keys() & others
    assert "mlm.finetuning.fold_training" in computing_code("jax", "mlm.finetuning.fold_training")
