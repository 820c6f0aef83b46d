"""The example of docs/ask.md that makes a step again, asked of a training that ran."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from mlm.samples.manifests import Manifest
from mlm.samples.shuffling import SampleOrder
from mlm.samples.split_samples import spread_samples
from mlm.tokenizer.encoding import Encoder
from tests.conftest import users_environment

from .conftest import ROOT

pytestmark = pytest.mark.workflow

#: The lines that `--replay` adds.
FORMS = [
    r"Step [\d,]+ made again, [\d,]+ steps? from (the initial weights|state/\S+): its loss was "
    r"\d+\.\d{6}, the mean over its [\d,]+ samples\.",
    r"(Sample|Passage \d+, sample) [\d,]+, as it was shown to step [\d,]+, and the answers before "
    r"it:",
    r"(Sample|Passage \d+, sample) [\d,]+: none of its tokens was asked for\.",
    r"  .+ → .+: loss \d+\.\d{3}; (“.+” \d+\.\d %(, |$)){5}",
]


def kinds_of(lines: list[str]) -> list[str]:
    found = [[form for form in FORMS if re.fullmatch(form, line)] for line in lines]
    assert all(found), [line for line, forms in zip(lines, found, strict=True) if not forms]
    return [forms[0] for forms in found]


def example() -> tuple[list[str], list[str]]:
    """The command of the page, in parts, and the lines that stand below it."""
    page = (ROOT / "docs" / "ask.md").read_text(encoding="utf-8")
    chapter = page.split("## The step again")[1]
    command, *lines = chapter.split("```console\n$ ")[1].split("\n```")[0].split("\n")
    return shlex.split(command), lines


def test_the_example_of_the_page_has_the_lines_of_a_replay():
    kinds = kinds_of(example()[1])
    assert kinds[:2] == FORMS[:2] and set(kinds[2:]) == {FORMS[3]}


@pytest.mark.slow
def test_the_last_step_of_a_small_workflow_is_made_again_as_the_page_has_it(built):
    results = built.path / "results"
    training = json.loads((results / "runs/base/training.json").read_text())
    manifest = Manifest.read(results / "manifests/train.json")
    order = SampleOrder(
        tuple(shard.num_samples for shard in manifest.shards),
        training["seed"],
        training["shuffle_window"],
    )
    last = training["steps"] * training["global_batch_size"] - 1
    (sample,) = order.samples(np.array([last]))[1]
    ids = spread_samples(manifest, built.path).input_ids[sample]
    encoder = Encoder.load(results / "tokenizer/tokenizer.json")
    # Without what may be a part of a word.
    words = encoder.decode(ids[(ids > 4)].tolist()).split()[2:12]

    (program, script, _, *options), _ = example()
    assert (program, options[0]) == (".venv/bin/python", "--replay")
    here = ["tiny.yaml" if option == "presets/tiny.yaml" else option for option in options]
    assert here != options
    ran = subprocess.run(
        [sys.executable, script, " ".join(words), *here],
        cwd=built.path,
        env=users_environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "from the state after step 8, state/base/" in ran.stderr
    _, replayed = ran.stdout.split("\nStep ")
    kinds = kinds_of(f"Step {replayed}".splitlines())
    assert kinds[0] == FORMS[0] and FORMS[1] in kinds and FORMS[3] in kinds
