"""Packages stand in the order in which data flows, and import only from those before them."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from mlm.asking.past_run import SHOWING_MODULES
from mlm.foundations.code_digests import code_digests, imported_names

SCRIPTS = Path(__file__).parents[2] / "scripts"

#: A package may import from those above it. docs/architecture.md says what each holds.
ORDER = (
    *("foundations", "config", "corpus", "tokenizer", "samples", "model", "training"),
    *("evaluation", "finetuning", "preflight", "publishing", "asking", "check", "report"),
)

#: Modules that those that compute import though they compute no bits, by what they do instead:
#: an edit of them keeps the saved states of trainings.
COMPUTES_NO_BITS = {
    f"mlm.{module}": reason
    for reason, modules in {
        "messages": "model.architecture foundations.errors "
        "foundations.terminal foundations.environment",
        "reads and writes files": "foundations.artefacts foundations.atomic samples.artefacts",
        "what a state is compared by": "foundations.code_digests foundations.digests",
        "finds and starts the devices, which are part of the state": "config.accelerator "
        "training.devices training.in_tensorflow.devices "
        "training.processes",
        "the digests of manifests and tokenizer are part of the state": "samples.manifests "
        "samples.tfrecord tokenizer.encoding tokenizer.pieces tokenizer.pretrained",
        "reads samples, and says which of them validation looks at": "samples.split_samples",
    }.items()
    for module in modules.split()
}


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


def computing_modules():
    """What the modules that keep states name as computing, by the engine or the package."""
    found, names = {}, ("COMPUTING_MODULES", "FOLD_MODULES")
    for file in (SCRIPTS / "mlm").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets) in names:
                named = ast.literal_eval(node.value)
                if isinstance(named, dict):
                    both = named.pop("both")
                    found |= {engine: both + own for engine, own in named.items()}
                else:
                    folds = named
    return found | {"finetuning": found["jax"] + folds}


@pytest.mark.parametrize("computed_by", ["tensorflow", "jax", "finetuning"])
def test_a_state_knows_all_code_that_computes_its_bits(computed_by):
    named = computing_modules()[computed_by]
    reached = code_digests(SCRIPTS, named)
    assert set(named) <= set(reached), "a module is named that is not there"
    others = {module for module in reached if not module.startswith("mlm.config.")}
    assert others - set(named) <= set(COMPUTES_NO_BITS)
    assert set(COMPUTES_NO_BITS) <= set(code_digests(SCRIPTS, COMPUTES_NO_BITS))


def test_what_shows_a_step_its_tokens_is_named_with_what_computes():
    both = computing_modules()
    assert set(SHOWING_MODULES) <= set(both["tensorflow"]) & set(both["jax"])


def test_the_page_on_the_architecture_has_the_order_and_names_files_that_are_there():
    page = (SCRIPTS.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = page.split("## What may import what")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", chapter, re.MULTILINE)) == ORDER
    named = re.findall(r"`([\w.]+/[\w./]*)`", page)
    made = ("results/", "state/")
    places = (SCRIPTS / "mlm", SCRIPTS.parent)
    for path in (path for path in named if not path.startswith(made)):
        assert any((place / path).exists() for place in places), path
