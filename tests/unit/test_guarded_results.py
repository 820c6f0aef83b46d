from pathlib import Path
from types import SimpleNamespace

import pytest

from mlm.check.refused_plans import guard_results
from mlm.foundations.errors import MlmError

MODEL = "results/runs/base/model/model.safetensors"


def job(rule: str, *output: str):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), output=list(output))


@pytest.fixture
def overlays(tmp_path, monkeypatch):
    """Overlays beside results that were made with the first of them."""
    monkeypatch.chdir(tmp_path)
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


def test_what_replaces_nothing_goes_on(overlays):
    guard_results([job("report", "results/report.html")], [], {})
    guard_results([job("pretrain", "results/runs/new/model/model.safetensors")], [], {})


@pytest.mark.parametrize("other", [job("check"), job("preflight", "results/preflight.txt")])
def test_a_check_or_preflight_is_no_run(overlays, other):
    before = Path("results/configuration.yaml").read_text()
    guard_results([other], [overlays[1]], {})
    assert Path("results/configuration.yaml").read_text() == before
