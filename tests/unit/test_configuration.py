from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml
from loaded_script import loaded

from mlm.config.configuration import Configuration, trainings
from mlm.config.evaluation import Evaluation
from mlm.config.overlays import resolve
from mlm.config.pretraining import RunConfiguration
from mlm.foundations.errors import ConfigError

ROOT = Path(__file__).parents[2]
generate = loaded("generate_config")


def problems(config):
    with pytest.raises(ConfigError) as caught:
        resolve(config)
    return caught.value.problems


def nested(path, value):
    for key in reversed(path.split(".") if path else []):
        value = {key: value}
    return value


def test_config_yaml_the_page_of_all_keys_and_the_schema_are_current():
    """After an edit in scripts/mlm/config/: python scripts/generate_config.py"""
    for file, made in (
        ("config.yaml", generate.config_yaml((ROOT / "config.yaml").read_text(encoding="utf-8"))),
        ("docs/configuration.md", generate.configuration_md()),
        ("schemas/config.schema.yaml", generate.schema_yaml()),
    ):
        assert (ROOT / file).read_text(encoding="utf-8") == made, file


def test_the_schema_says_what_the_models_say():
    schema = yaml.safe_load(generate.schema_yaml())
    jsonschema.Draft202012Validator.check_schema(schema)
    accepts = jsonschema.Draft202012Validator(schema).is_valid
    for preset in (ROOT / "presets").glob("*.yaml"):
        assert accepts(yaml.safe_load(preset.read_text(encoding="utf-8"))), preset.name
    for wrong in (
        {"modle": {}},
        {"seed": "x"},
        {"shards": {"count": {"train": 0}}},
        {"corpus": {"source": "hbu"}},
        {"runs": {}},
        {"runs": {"base": {"seed": 1}}},
        {"runs": {"base": []}},
        {"model": {"config": {"hidden_dropout_prob": 1.0}}},
    ):
        assert not accepts(wrong) and problems(wrong), wrong


def test_unknown_keys_wrong_types_and_contradictions_are_told_together():
    found = problems(
        {
            "modle": {},
            "seed": "x",
            "corpus": {"source": "files"},
            "pretraining": {"steps": None, "optimizer": {"learning_rat": 1.0}},
            "preflight": {"targets": ["v5e:2x2", "v44:2x2"]},
            "runs": {
                "a b": {"model": {"family": "robberta"}},
                "adapted": {"model": {"start_from": "nowhere"}},
                "short": {"model": {"config": {"max_position_embeddings": 65}}},
            },
        }
    )
    lines = (
        "modle: unknown key; did you mean 'model'?",
        "seed: found 'x'; input should be a valid integer",
        "pretraining.optimizer.learning_rat: unknown key; did you mean 'learning_rate'?",
        "corpus.files.train: empty",
        "preflight.targets[1]: 'v44:2x2' is neither a GPU nor a TPU topology",
        "runs: found 'a b'; string should match pattern '^[A-Za-z0-9]",
        "runs.a b.model.family: found 'robberta'; expected one of: bert, roberta, ",
        "runs.adapted: model.start_from: 'nowhere' is no directory here",
        "runs.short: model.config.max_position_embeddings: 65; 64 tokens need at least 66",
        "pretraining.steps: of steps, epochs and tokens set one, the others to null; found none",
    )
    for line in lines:
        assert any(problem.startswith(line) for problem in found), line
    assert len(found) == len(lines)


def test_text_from_the_command_line_is_the_same_setting_and_so_is_any_way_to_write_a_number():
    """Snakemake's --config leaves every value inside a nested one as text, and YAML 1e-4."""
    typed = {
        "corpus": nested("filters.quality.rules", {"min_words": None, "stop_words": [1]}),
        "runs": {"base": None},
        "preflight": {"enabled": False},
        "pretraining": {"steps": None, "epochs": 3, "optimizer": {"learning_rate": 1e-4}},
        "model": {"config": {"hidden_size": 64, "hidden_act": "gelu", "layer_norm_eps": 1e-5}},
    }
    text = {
        "corpus": nested("filters.quality.rules", {"min_words": "null", "stop_words": ["1"]}),
        "runs": {"base": "null"},
        "preflight": {"enabled": "false"},
        "pretraining": {"steps": "null", "epochs": "3", "optimizer": {"learning_rate": "1e-4"}},
        "model": {"config": {"hidden_size": "64", "hidden_act": "gelu", "layer_norm_eps": "1e-5"}},
    }
    settings = resolve(text)
    assert settings.shown() == resolve(typed).shown()
    assert type(settings.model.config.hidden_size) is int
    assert type(settings.pretraining.epochs) is float


def test_a_run_overrides_only_what_it_names():
    runs = {"base": {}, "hot": nested("pretraining.optimizer.beta_1", 0.5)}
    sections = resolve({"runs": runs}).sections_of_runs()
    hot, base = (sections[run].pretraining.model_dump() for run in ("hot", "base"))
    assert hot["optimizer"].pop("beta_1") == 0.5 != base["optimizer"].pop("beta_1")
    assert hot == base


@pytest.mark.parametrize(
    "starts, words",
    [
        ({"base": (None, None), "branch": ("base", 700), "twig": ("branch", 900)}, None),
        ({"a": ("b", 7)}, "continue_from.run: no run is called 'b'; there are: a"),
        ({"a": ("a", 7)}, "continue_from.run: in a circle: a → a"),
        ({"a": ("b", 7), "b": ("a", 7)}, "continue_from.run: in a circle: a → b → a"),
        ({"a": ("b", None), "b": (None, None)}, "run and step go together; found run: b"),
        ({"a": ("b", 1400), "b": (None, None)}, "1400 leaves nothing to train of steps: 1400"),
        ({"a": ("b", 1600), "b": (None, None)}, "1600 is beyond the last step of run 'b', 1400"),
    ],
)
def test_a_run_may_continue_another_that_there_is_before_its_end(starts, words):
    given = {
        name: nested("pretraining.continue_from", {"run": run, "step": step})
        for name, (run, step) in starts.items()
    }
    if words:
        assert any(words in line for line in problems({"runs": given}))
    else:
        resolve({"runs": given})


HUB = {"dataset": "c/d", "revision": "0" * 40}
FILES = {"source": "files", "files": {"train": ["a.jsonl"]}}
RULES = "corpus.filters.quality.rules"
SEED, RATE = "pretraining.seed", "pretraining.optimizer.learning_rate"


def mix(**own):
    return {"source": "mix", "mix": {"a": own}}


def modernbert(**fields):
    return {"family": "modernbert", "config": fields}


#: Values that are refused, by the key at which they are set and the key that the message names.
WRONG = {
    ("seed", ""): [True],
    (RATE, ""): [float("nan")],
    ("pretraining.checkpoint.directory", ""): ["s3://bucket/state"],
    ("report.runs", ""): [["nope"], []],
    ("corpus.group_by", "embedded"): ["speaker"],
    ("corpus.group_per", "embedded"): ["heading"],
    ("corpus", "hub.revision"): [{"source": "hub", "hub": {"dataset": "x/y"}}],
    ("corpus", "files.test"): [{"files": {"test": ["a"]}}],
    ("corpus", "hub.splits"): [{"hub": {"splits": {"test": None}}}],
    ("corpus", "source: hub"): [
        {"source": "hub", "hub": HUB, "files": {"train": ["a"]}},
        {"source": "hub", "hub": HUB, "group_per": "file"},
    ],
    ("corpus", "group_by"): [FILES | {"group_by": "a", "group_per": "file"}],
    ("corpus", "mix"): [
        {"source": "mix"},
        {"mix": {"a": {}}},
        {"source": "mix", "mix": {"a b": {}, "c": {}}},
    ],
    ("corpus", "mix.a.files.train"): [mix(source="files")],
    ("corpus", "mix.a.filters.deduplicate"): [mix(filters={"deduplicate": False})],
    ("corpus", "for each source"): [mix() | {"group_by": "x"}],
    ("corpus", "also"): [mix(filters={"decontamination": {"also": ["test"]}})],
    (RULES, "rules.max_top_n_grams"): [{"max_top_n_grams": [0.2] * 7}],
    (RULES, "did you mean 'min_words'"): [{"min_word": 3}],
    (RULES, "keys should be strings"): [{False: 3}],
    ("corpus.filters.quality", "rules: {min_words: …}?"): [{"min_words": 3}],
    ("corpus.files", "train: found 'a'"): [{"train": "a"}],
    ("sweep", "tokenizer.kind"): [{"tokenizer.kind": ["bpe"]}],
    ("sweep", "sweep.7"): [{7: [1]}],
    ("sweep", SEED): [{SEED: 3}],
    ("evaluation.prompts", ""): [["no mask"]],
    ("pretraining.masking", "mask_token"): [{"random_token": 0.3}],
    ("finetune.task", "classification"): ["classification"],
    ("finetune.data", "file"): [{"source": "csv"}, {"file": "a.csv"}],
    ("tokenizer.pretrained", "kind: pretrained"): [{"path": "a"}],
    ("publish.tokenizer", "leave {run} out"): ["me/{run}"],
    ("", "pretraining: {seed: …}?"): [{SEED: 3}, {"runs": {"a": {"seed": 3}}}],
    ("", "None: unknown key"): [{None: 3}],
    ("", "runs.a.pretraining: found 3"): [
        {"runs": {"a": {"pretraining": 3}}, "sweep": {SEED: [1]}}
    ],
    ("", "runs.base_seed-2020-01-01."): [{"sweep": {SEED: [date(2020, 1, 1)]}}],
    ("pretraining.phases", "[0].share: missing"): [[{}]],
    ("pretraining.phases", "[0].sequence_length"): [[{"share": 1, "sequence_length": 65}]],
    ("finetune.also", ""): [["nothing"], ["a/b@main"], [f"a/b@{'0' * 40}"] * 2],
    ("pretraining.optimizer", "muon"): [{"name": "adamw", "momentum": 0.9}],
    ("pretraining", "section"): [None, 3],
    ("runs.hot.pretraining", "section"): [None, [1]],
    ("pretraining", "warmup_steps"): [
        {"steps": 101, "optimizer": {"warmup_steps": 0.5, "decay_steps": 0.5}},
        {"steps": 9, "optimizer": {"warmup_steps": 10}},
    ],
    ("accelerator.deterministic", "engine"): [False],
    ("accelerator.processes", "engine"): [2],
    ("accelerator", "virtual_replicas"): [{"kind": "gpu", "virtual_replicas": 2}],
    ("tokenizer.character_coverage", ""): [0.9],
    ("tokenizer.special_tokens.mask", ""): ["mask", "["],
    ("model", "local_attention"): [modernbert(local_attention="x")],
    ("model", "attention_bias"): [modernbert(attention_bias=3)],
    ("model.config.is_decoder", ""): [True],
    ("model.config.pad_token_id", ""): [7],
    ("model.config.model_type", ""): ["bert"],
    ("model.config.num_attention_heads", "heads"): [3, 1],
    ("model.family", "neighbour_heads"): ["albert", "modernbert", "esm"],
    ("model", "embedding_size 64"): [{"family": "electra", "config": {"embedding_size": 64}}],
    ("model", "position_embedding_type"): [
        {"family": "esm", "config": {"position_embedding_type": "absolute"}}
    ],
    ("model", "num_hidden_groups"): [
        {
            "family": "albert",
            "config": {"num_hidden_groups": 2},
            "initialisation": {"attention": "standard"},
        }
    ],
}


@pytest.mark.parametrize(
    "path, named, value", [(*place, value) for place, values in WRONG.items() for value in values]
)
def test_a_wrong_setting_is_refused_with_its_key(path, named, value):
    config = {"evaluation": {"prompts": []}} if "special" in path else {}
    (problem,) = problems(config | nested(path, value))
    assert problem.startswith((path.rpartition(".")[0] or path, "model."))
    assert (named or path) in problem


@pytest.mark.parametrize(
    "path, value",
    [
        ("pretraining.optimizer", {"name": "muon", "momentum": 0.9}),
        ("tokenizer", {"character_coverage": 0.9, "kind": "bpe"}),
        ("corpus", FILES | {"group_by": "speaker"}),
        ("", {"accelerator": {"processes": 2}, "pretraining": {"engine": "jax"}}),
        ("corpus", {"source": "embedded", "hub": HUB}),
        *(
            ("", {"tokenizer": {"special_tokens": {"mask": t}}, "evaluation": {"prompts": []}})
            for t in ("<mask>", "【遮】")
        ),
    ],
)
def test_a_setting_that_suits_the_others_is_accepted(path, value):
    resolve(nested(path, value))


def test_every_number_has_bounds():
    def numbers(schema, path=""):
        if isinstance(schema, dict) and schema.get("type") in ("integer", "number"):
            yield path, schema
        items = schema.items() if isinstance(schema, dict) else enumerate(schema)
        for key, value in items:
            if isinstance(value, dict | list):
                yield from numbers(value, f"{path}/{key}")

    for path, schema in numbers(Configuration.model_json_schema()):
        assert {"minimum", "exclusiveMinimum"} & schema.keys(), path
        assert {"maximum", "exclusiveMaximum"} & schema.keys(), path


def test_a_param_is_the_same_section_again_without_what_the_job_does_not_depend_on():
    settings = resolve(nested("pretraining", {"seed": 3, "checkpoint": {"every": 7}}))
    training = trainings(settings)["base"]
    param = training.as_param("operation")
    again = RunConfiguration.model_validate(param | {"operation": training.operation.model_dump()})
    assert again == training and again.operation.checkpoint.every == 7
    assert "checkpoint" not in str(param) and not hasattr(again.pretraining, "checkpoint")
    section = Evaluation(batch_size=7, prompts=["A [MASK]."])
    assert section.only("batch_size") == Evaluation(batch_size=7)
    assert section.with_defaults("prompts") == Evaluation(batch_size=7)
