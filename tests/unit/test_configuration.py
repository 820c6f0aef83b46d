"""The configuration tells all its problems at once and is canonical when it has none."""

import re
from pathlib import Path

import pytest
import yaml

from mlm.configuration import load_schema, resolve, run_section
from mlm.errors import ConfigError

ROOT = Path(__file__).parents[2]
SCHEMA = load_schema(ROOT / "schemas" / "config.schema.yaml")


def problems(config):
    with pytest.raises(ConfigError) as caught:
        resolve(config, SCHEMA)
    return caught.value.problems


def test_config_yaml_shows_every_default():
    shown = yaml.safe_load((ROOT / "config.yaml").read_text())
    assert resolve({}, SCHEMA) == resolve(shown, SCHEMA) == shown


def test_every_key_of_config_yaml_has_a_comment():
    """Above the key itself, above the keys just before it, or above the block it is in."""
    lines = (ROOT / "config.yaml").read_text().splitlines()

    def indent(line):
        return len(line) - len(line.lstrip())

    def explained(at):
        for above in range(at - 1, -1, -1):
            line = lines[above]
            if line.strip().startswith("#") and indent(line) == indent(lines[at]):
                return True
            if not line.strip():
                return False
            if indent(line) < indent(lines[at]):
                return explained(above)
        return False

    keys = [i for i, line in enumerate(lines) if re.match(r"\s*[a-z_0-9]+:", line)]
    blocks = {i for i in keys if indent(lines[i]) == 0 and lines[i].endswith(":")}
    assert len(keys) > 80
    assert not [lines[i] for i in keys if i not in blocks and not explained(i)]


def test_unknown_keys_wrong_types_and_contradictions_are_told_together():
    found = problems(
        {
            "modle": {},
            "seed": "x",
            "corpus": {"source": "files"},
            "pretraining": {"steps": None, "optimizer": {"learning_rat": 1.0}},
            "runs": {"a b": {}},
        }
    )
    text = "\n".join(found)
    assert "modle: unknown key; did you mean 'model'?" in text
    assert "seed: found 'x', expected integer" in text
    assert "pretraining.optimizer.learning_rat: unknown key; did you mean 'learning_rate'?" in text
    assert "corpus.files.train: empty" in text
    assert "exactly one of steps, epochs, tokens must be set; found none" in text
    assert "'a b' cannot be a file name" in text


def test_numbers_are_the_same_setting_however_they_are_written():
    def rate(text):
        config = yaml.safe_load(f"pretraining: {{optimizer: {{learning_rate: {text}}}}}")
        return resolve(config, SCHEMA)["pretraining"]["optimizer"]["learning_rate"]

    assert rate("1.0e-4") == rate("0.0001") == rate("1e-4") == 1e-4
    whole = rate("1")
    assert whole == 1.0 and type(whole) is float


def test_text_from_the_command_line_is_the_same_setting():
    """Snakemake's --config leaves every value inside a nested one as text."""
    typed = {
        "preflight": {"required": False},
        "pretraining": {"steps": None, "epochs": 3, "masking": {"share": 0.2}},
        "model": {"config": {"hidden_size": 64, "hidden_act": "gelu", "layer_norm_eps": 1e-5}},
    }
    text = {
        "preflight": {"required": "false"},
        "pretraining": {"steps": "null", "epochs": "3", "masking": {"share": "0.2"}},
        "model": {"config": {"hidden_size": "64", "hidden_act": "gelu", "layer_norm_eps": "1e-5"}},
    }
    found = resolve(text, SCHEMA)
    assert found == resolve(typed, SCHEMA)
    assert type(found["model"]["config"]["hidden_size"]) is int
    assert problems({"preflight": {"required": "no"}}) == [
        "preflight.required: found 'no', expected boolean"
    ]


def test_a_boolean_is_no_number():
    assert problems({"seed": True}) == ["seed: found True, expected integer"]


def test_a_number_must_be_finite():
    config = {"pretraining": {"optimizer": {"learning_rate": float("nan")}}}
    assert any("no finite number" in p for p in problems(config))


def test_a_run_overrides_only_what_it_names():
    config = resolve(
        {"runs": {"base": {}, "hot": {"pretraining": {"optimizer": {"learning_rate": 1.0}}}}},
        SCHEMA,
    )
    hot, base = (run_section(config, run, "pretraining") for run in ("hot", "base"))
    assert hot["optimizer"]["learning_rate"] == 1.0
    hot["optimizer"]["learning_rate"] = base["optimizer"]["learning_rate"]
    assert hot == base


def test_an_override_with_an_unknown_key_names_the_run():
    config = {"runs": {"hot": {"pretraining": {"lr": 1}}}}
    assert any(p.startswith("runs.hot.pretraining.lr: unknown key") for p in problems(config))


def test_a_report_of_a_missing_run_is_refused():
    assert problems({"report": {"runs": ["nope"]}}) == [
        "report.runs: no run is called 'nope'; there are: base"
    ]


@pytest.mark.parametrize("prompt", ["no mask here", "[MASK] and [MASK]"])
def test_a_prompt_needs_exactly_one_mask(prompt):
    assert any(repr(prompt) in p for p in problems({"evaluation": {"prompts": [prompt]}}))


def test_heads_that_do_not_divide_the_width_are_refused():
    config = {"model": {"config": {"hidden_size": 128, "num_attention_heads": 3}}}
    assert any("3 attention heads do not divide" in p for p in problems(config))


def test_an_unpinned_hub_dataset_is_refused():
    found = problems({"corpus": {"source": "hub", "hub": {"dataset": "x/y"}}})
    assert any(p.startswith("corpus.hub.revision: missing") for p in found)


def test_what_later_stages_would_refuse_is_told_before_the_first_job():
    found = problems(
        {
            "preflight": {
                "utilisation": {"low": 0.6, "high": 0.2},
                "targets": ["v5e:2x2", "v33:2x2", "v5e"],
            },
            "finetune": {"data": {"source": "csv"}},
            "runs": {
                "base": {"model": {"family": "robberta"}},
                "file": {"model": {"config_file": "nowhere.json"}},
                "shared": {"model": {"family": "albert"}},
                "short": {"model": {"config": {"max_position_embeddings": 65}}},
            },
        }
    )
    for line in (
        "preflight.utilisation: low 0.6 is above high 0.2",
        "preflight.targets: 'v33:2x2' is no TPU topology; nearest: v3:2x2",
        "preflight.targets: 'v5e' is no TPU topology; nearest: v5e:2x2",
        "finetune.data.file: missing",
        "runs.base: model.family: 'robberta' is no masked language model of transformers in "
        "TensorFlow; did you mean 'roberta'?",
        "runs.file: model.config_file: nowhere.json: no such file",
        "runs.shared: model.initialisation: neighbour_heads is not made for albert",
        "runs.short: model.config.max_position_embeddings: 65; sequences of 64 tokens need at "
        "least 66",
    ):
        assert any(problem.startswith(line) for problem in found), line
    assert len(found) == 8


def test_classification_without_data_of_its_own_is_refused():
    found = problems({"finetune": {"task": "classification"}})
    assert found[0].startswith("finetune.task: classification needs data of its own")


def test_a_trace_of_steps_that_never_come_is_refused():
    assert problems({"pretraining": {"profile": [4, 2]}}) == [
        "pretraining.profile: the first step 4 is after the last, 2"
    ]
    assert problems({"pretraining": {"profile": [4, 5000]}}) == [
        "pretraining.profile: step 5000 is beyond the last, 3200"
    ]
