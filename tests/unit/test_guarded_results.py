from pathlib import Path
from types import SimpleNamespace

import pytest

from mlm.check.refused_plans import guard_results
from mlm.foundations.errors import MlmError

MODEL = "results/runs/base/model/model.safetensors"


def job(rule: str, *output: str):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), output=list(output))


@pytest.fixture
def overlays(here):
    """Overlays beside results that were made with the first of them."""
    for name in ("mine.yaml", "preset.yaml"):
        Path(name).write_text("seed: 1\n")
    jobs = [job("pretrain", MODEL)]
    guard_results(jobs, [Path("mine.yaml")], {})
    Path(MODEL).parent.mkdir(parents=True)
    Path(MODEL).write_text("weights")
    return Path("mine.yaml"), Path("preset.yaml")


@pytest.mark.parametrize("names", [[], [1], [0, 1]])
def test_results_of_other_overlays_are_not_replaced(overlays, names):
    with pytest.raises(MlmError, match=r"--configfile mine.yaml;.*replace=true"):
        guard_results([job("pretrain", MODEL)], [overlays[n] for n in names], {})


def test_an_edited_overlay_may_replace_results_and_so_may_who_says_so(overlays):
    mine, preset = overlays
    mine.write_text("seed: 2\n")
    guard_results([job("pretrain", MODEL)], [mine], {})
    guard_results([job("pretrain", MODEL)], [preset], {"replace": True})
    # Now these are the results of the preset.
    with pytest.raises(MlmError, match=r"--configfile preset.yaml;"):
        guard_results([job("pretrain", MODEL)], [mine], {})
    guard_results([job("pretrain", MODEL.replace("base", "new"))], [mine], {})


@pytest.mark.parametrize(
    "other", [("check",), ("preflight", "results/preflight.txt"), ("report", "results/report.html")]
)
def test_what_makes_no_model_is_no_run(overlays, other):
    before = Path("results/configuration.yaml").read_text()
    guard_results([job(*other)], [overlays[1]], {})
    assert Path("results/configuration.yaml").read_text() == before
