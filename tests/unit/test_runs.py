from pathlib import Path

import pytest
import yaml

from mlm.config.overlays import laid_over, resolve
from mlm.foundations.errors import ConfigError

DEFAULTS = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
RATE, SEED = "pretraining.optimizer.learning_rate", "pretraining.seed"


def problems(config) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(config)
    return caught.value.problems


def names(sweep: dict) -> list[str]:
    return list(resolve({"sweep": sweep}).runs)


def test_a_sweep_is_the_same_as_its_runs_written_out():
    written = {
        f"base_seed-{seed}_learning_rate-{rate}": {
            "pretraining": {"seed": seed, "optimizer": {"learning_rate": rate}}
        }
        for seed in (0, 1)
        for rate in (0.003, 0.006)
    }
    swept = resolve({"sweep": {SEED: [0, 1], RATE: [0.003, 0.006]}})
    assert swept.shown() == resolve({"runs": written}).shown()


def test_every_run_of_an_overlay_is_swept():
    wide = {"model": {"config": {"hidden_size": 256}}}
    overlay = {"runs": {"base": {}, "wide": wide}, "sweep": {SEED: [3, 4]}}
    settings = laid_over(DEFAULTS, [overlay])
    assert list(settings.runs) == ["base_seed-3", "base_seed-4", "wide_seed-3", "wide_seed-4"]
    assert settings.as_set()["runs"]["wide_seed-4"] == wide | {"pretraining": {"seed": 4}}
    assert settings.sweep == {}


def test_a_value_has_one_name_however_it_is_written_and_paths_of_one_end_are_told_apart():
    for values in ([1e-5, 2.0], ["1e-5", 2], ["0.00001", "2"]):
        assert names({RATE: values}) == ["base_learning_rate-1e-05", "base_learning_rate-2"]
    assert names({"pretraining.masking.whole_word": [False]}) == ["base_whole_word-false"]
    assert names({"evaluation.seed": [1], SEED: [2]}) == [
        "base_evaluation.seed-1_pretraining.seed-2"
    ]


def test_a_wrong_value_or_path_is_told_of_its_run():
    (problem,) = problems({"sweep": {RATE: ["fast"]}})
    assert problem.startswith(f"runs.base_learning_rate-fast.{RATE}: found 'fast'")
    (problem,) = problems({"sweep": {"pretraining.seeds": [1]}})
    assert "did you mean 'seed'" in problem
    (problem,) = problems({"sweep": {"evaluation.prompts": [["a [MASK]"]]}})
    assert "string should match" in problem
