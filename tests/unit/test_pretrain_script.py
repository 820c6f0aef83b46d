"""What the script of rule `pretrain` hands to the training beside its settings."""

import importlib
from types import SimpleNamespace

import pytest

from mlm.accelerators.artefacts import Preflight, Step
from mlm.foundations.errors import MlmError

STEP = {"slots": 5}
ALONE = {"kind": "cpu", "precision": "float32", "cpu_threads": 1, "virtual_replicas": None}


@pytest.fixture
def handed_in(monkeypatch, tmp_path):
    """The function that the training calls before a TPU that `auto` found, by `required`."""
    from mlm.training import pretrain

    monkeypatch.chdir(tmp_path)

    def of(required: bool):
        taken = {}

        def train(_settings, _files, _results, before_found_tpu, further_action, *_others):
            taken.update(gate=before_found_tpu, action=further_action)

        monkeypatch.setattr(pretrain, "train_and_export", train)
        trained = "results/runs/base/trained"
        job = SimpleNamespace(
            wildcards=SimpleNamespace(run="base"),
            params=SimpleNamespace(
                model={},
                pretraining={},
                accelerator=ALONE,
                seed=0,
                sequence_length=16,
                corpus="",
                operational={
                    "checkpoint": {},
                    "continue_from": {},
                    "parent": None,
                    "push": {"every": None},
                    "live": {"prompts": [], "top_k": 5},
                    "preflight_required": required,
                    "processes": {},
                    "tpu": {"name": "local"},
                },
            ),
            input=SimpleNamespace(
                tokenizer="t/tokenizer.json", train="t", validation="v", holes=[], continued=[]
            ),
            output=SimpleNamespace(
                weights=f"{trained}/model/model.safetensors",
                log=f"{trained}/training.csv",
                summary=f"{trained}/training.json",
            ),
        )
        importlib.import_module("pretrain").main(job)
        return taken

    return of


def test_the_gate_reads_the_preflight_where_the_workflow_makes_it(handed_in):
    gate = handed_in(required=True)["gate"]
    with pytest.raises(MlmError, match=r"results/runs/base/preflight\.json does not exist"):
        gate("base", STEP)
    Preflight(
        run="base",
        passed=True,
        label="",
        effort="full",
        unseen=[],
        step=Step(precision="float32", **STEP),
        rules=[],
        findings=[],
        targets=[],
        chips=[],
        packages={},
    ).write("results/runs/base/preflight.json")
    gate("base", STEP)


def test_no_preflight_and_no_pushes_where_none_are_asked_for(handed_in):
    taken = handed_in(required=False)
    taken["gate"]("base", STEP)
    with taken["action"]("state", True) as action:
        assert action is None


@pytest.mark.parametrize(
    "summary, page",
    [
        ("results/runs/base/trained/training.json", "results/live.html"),
        (".snakemake/storage/gcs/b/p/results/runs/base/trained/training.json", None),
    ],
)
def test_a_training_is_shown_where_its_results_stay(summary, page):
    assert importlib.import_module("pretrain").live_page_of(summary) == page
