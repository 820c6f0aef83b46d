"""The diffs of docs/extending.md apply to this tree, are small, and do what the page says."""

import json
import os
import re
import sys

import pytest

from tests.conftest import ended, users_environment

from .conftest import ROOT, copy_of_the_repository

PAGE = ROOT / "docs" / "extending.md"
#: A section's word, its diff and its commands.
FOUND = re.findall(
    r"^## An? (\w+)\n.*?^```diff\n(.*?)^```$.*?^```bash\n(.*?)^```$", PAGE.read_text(), re.M | re.S
)
DIFFS, COMMANDS = ({name: parts[i] for name, *parts in FOUND} for i in (0, 1))
SECTIONS = ("metric", "optimizer", "source")

#: What a user of the extended tree would see, by section; run in the copy.
CHECKS = {
    "metric": """
import numpy as np, yaml
from mlm.evaluation.artefacts import METRICS
from mlm.evaluation.metrics import means_of_model
from mlm.evaluation.predictions import Scores
rank = np.array([1, 2, 4])
found = means_of_model(Scores(np.log([0.5, 0.2, 0.1]), rank == 1, rank, rank))
assert abs(found["mean_reciprocal_rank"] - 1.75 / 3) < 1e-12 and found.keys() == METRICS.keys()
glossary = yaml.safe_load(open("report/glossary.yaml", encoding="utf-8"))
assert {metric.term for metric in METRICS.values()} <= glossary.keys()
""",
    "optimizer": """
import numpy as np
from mlm.foundations.tensorflow_setup import tf
from mlm.config.resolution import resolve
from mlm.config.optimizers import Optimizer
from mlm.foundations.errors import ConfigError
from mlm.training.in_jax.optimizers import first_moments, updated
from mlm.training.in_tensorflow.optimizers import build_optimizer
from mlm.training.learning_rate import with_lengths
import jax.numpy as jnp
resolve({"pretraining": {"optimizer": {"name": "lion"}}})
try:
    resolve({"pretraining": {"optimizer": {"name": "lion", "epsilon": 0.5}}})
    raise SystemExit("a key that Lion does not read is accepted")
except ConfigError as error:
    assert "epsilon: 0.5, which is for adamw or muon, not for lion" in str(error), error
given = dict(name="lion", learning_rate=0.01, weight_decay=0.1, beta_1=0.9, beta_2=0.99)
settings = with_lengths(Optimizer(**given), 100)
random, shapes = np.random.default_rng(0), {"kernel": (4, 3), "bias": (3,)}
weights = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
variables = [tf.Variable(value, name=name) for name, value in weights.items()]
optimizer, moments = build_optimizer(settings, variables), first_moments(weights, settings, {})
expected, means = dict(weights), {name: 0.0 for name in weights}
for step in range(5):
    gradients = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    optimizer.apply_gradients(zip(map(tf.constant, gradients.values()), variables))
    number, rate = jnp.int32(step), 0.01 * (step + 1) / 5
    weights, moments = updated(weights, moments, gradients, number, settings, {}, jnp.float32)
    for name, g in gradients.items():
        # Algorithm 2 of Chen et al.; biases do not decay.
        decay = 0.1 * expected[name] if name == "kernel" else 0.0
        sign = np.sign(0.9 * means[name] + 0.1 * g)
        expected[name] = expected[name] - rate * (sign + decay)
        means[name] = 0.99 * means[name] + 0.01 * g
for variable, (name, value) in zip(variables, weights.items()):
    np.testing.assert_allclose(value, expected[name], atol=1e-6)
    np.testing.assert_allclose(variable.numpy(), value, atol=1e-6)
""",
    "source": """
import io
from mlm.config.corpus import Corpus
from mlm.config.resolution import resolve
from mlm.corpus.formats import read_documents
from mlm.corpus.parts import divided
from mlm.foundations.errors import MlmError
resolve({"corpus": {"source": "files", "files": {"train": ["a.json"]}}})
def read(content):
    return [d.text for d in read_documents(io.BytesIO(content), "a.json", "json", Corpus())]
assert read(b'[{"text": "One."}, {"text": null}, {"text": "Two."}]') == ["One.", "", "Two."]
for content, words in ((b'[{"text": 1}]', "item 1"), (b"{}", "an array"), (b"[", "no valid JSON")):
    try:
        raise SystemExit(f"{content} is accepted: {read(content)}")
    except MlmError as error:
        assert str(error).startswith("a.json") and words in str(error), error
open("a.json", "w").write("[" + 999 * " " + "]")
section = {"group_per": None, "files": {"document_per": "line"}}
(part,) = divided({"train": ["a.json"]}, section, 4)
assert [tuple(piece) for piece in part["train"]] == [("a.json", 0, None)]
""",
}


def applied(place, section):
    """A copy of the repository with the diff of `section`."""
    place.mkdir()
    copy_of_the_repository(place)
    # The copy is no repository; git must not take one above it.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(place.parent)}
    how = {"cwd": place, "env": environment, "input": DIFFS[section]}
    ran = ended("git", "apply", "--verbose", "-", status=None, **how)
    assert ran.returncode == 0, (
        f"{PAGE.name}: the diff of the section on a {section} no longer applies. Make its "
        "edits by hand in a clean checkout, put the output of `git diff -U2` in its place, "
        f"and undo the edits.\n{ran.stderr}"
    )
    assert "Skipped" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("section", SECTIONS)
def test_a_diff_of_the_page_applies_to_few_files_and_does_what_it_says(section, tmp_path):
    assert tuple(DIFFS) == SECTIONS
    files = re.findall(r"^\+\+\+ b/(.+)$", DIFFS[section], re.M)
    assert 1 <= len(files) <= 3 and any(name.startswith("scripts/") for name in files)
    applied(place := tmp_path / "copy", section)
    environment = users_environment() | {"PYTHONPATH": "scripts", "TF_USE_LEGACY_KERAS": "1"}
    for command in (["scripts/generate_config.py"], ["-c", CHECKS[section]]):
        ended(sys.executable, *command, cwd=place, env=environment)


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_the_page_end_well(section, tmp_path):
    applied(place := tmp_path / "copy", section)
    (place / ".venv").symlink_to(sys.prefix)
    shell = ("bash", "-euo", "pipefail", "-c", COMMANDS[section])
    ended(*shell, cwd=place, env=users_environment())
    if section == "metric":
        evaluated = json.loads((place / "results/runs/base/evaluation.json").read_text())
        figure = evaluated["test"]["hidden"]["mean_reciprocal_rank"]
        page = (place / "results/report.html").read_text()
        assert 0 < figure < 1 and f"<td>{figure:.3f}</td>" in page
        assert 'href="#term-reciprocal_rank">Reciprocal rank</a></th>' in page
