import datetime
from pathlib import Path
from typing import get_args, get_origin

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from mlm.config.fields import expected, is_section, taken_apart
from mlm.config.filters import QualityRules
from mlm.config.pretraining import Pretraining
from mlm.config.reference import config_yaml, configuration_md, keys, schema_yaml
from mlm.config.resolution import resolve, run_section
from mlm.foundations.errors import ConfigError

ROOT = Path(__file__).parents[2]


def problems(config):
    with pytest.raises(ConfigError) as caught:
        resolve(config)
    return caught.value.problems


def nested(path, value):
    for key in reversed(path.split(".") if path else []):
        value = {key: value}
    return value


def test_what_config_yaml_shows_are_defaults_and_most_is_left_to_the_page_of_all_keys():
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    assert resolve({}) == resolve(yaml.safe_load(text))
    assert len(text.splitlines()) <= 200


def test_config_yaml_the_page_of_all_keys_and_the_schema_are_current():
    """After an edit in scripts/mlm/config/: python scripts/generate_config.py"""
    for file, made in (
        ("config.yaml", config_yaml((ROOT / "config.yaml").read_text(encoding="utf-8"))),
        ("docs/configuration.md", configuration_md()),
        ("schemas/config.schema.yaml", schema_yaml()),
    ):
        assert (ROOT / file).read_text(encoding="utf-8") == made, file


def test_every_key_is_described():
    found = {p: text for p, hint, _, text in keys() if not is_section(taken_apart(hint)[0])}
    found |= {rule: text for rule, *_, text in keys(QualityRules)}
    assert [path for path, text in found.items() if not text] == []


def test_the_schema_says_what_the_models_say():
    schema = yaml.safe_load(schema_yaml())
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
            "preflight": {"targets": ["v5e:2x2", "v33:2x2"]},
            "runs": {
                "a b": {"model": {"family": "robberta"}},
                "file": {"model": {"config_file": "nowhere.json"}},
                "short": {"model": {"config": {"max_position_embeddings": 65}}},
            },
        }
    )
    for line in (
        "modle: unknown key; did you mean 'model'?",
        "seed: found 'x', expected integer",
        "pretraining.optimizer.learning_rat: unknown key; did you mean 'learning_rate'?",
        "corpus.files.train: empty",
        "preflight.targets: 'v33:2x2' is neither a GPU nor a TPU topology; nearest: v3:2x2",
        "runs: 'a b' cannot be a file name",
        "runs.a b: model.family: 'robberta' is not a masked language model that is trained here; "
        "did you mean 'roberta'?",
        "runs.file: model.config_file: nowhere.json: no such file",
        "runs.short: model.config.max_position_embeddings: 65; sequences of 64 tokens need at "
        "least 66",
        *(
            f"runs.{run}: pretraining.steps: of steps, epochs and tokens set one, the others to "
            "null; found none"
            for run in ("a b", "file", "short")
        ),
    ):
        assert any(problem.startswith(line) for problem in found), line
    assert len(found) == 12


def test_text_from_the_command_line_is_the_same_setting_and_so_is_any_way_to_write_a_number():
    """Snakemake's --config leaves every value inside a nested one as text, and YAML 1e-4."""
    typed = {
        "preflight": {"required": False},
        "pretraining": {"steps": None, "epochs": 3, "optimizer": {"learning_rate": 1e-4}},
        "model": {"config": {"hidden_size": 64, "hidden_act": "gelu", "layer_norm_eps": 1e-5}},
    }
    text = {
        "preflight": {"required": "false"},
        "pretraining": {"steps": "null", "epochs": "3", "optimizer": {"learning_rate": "1e-4"}},
        "model": {"config": {"hidden_size": "64", "hidden_act": "gelu", "layer_norm_eps": "1e-5"}},
    }
    found = resolve(text)
    assert found == resolve(typed)
    assert type(found["model"]["config"]["hidden_size"]) is int
    assert type(found["pretraining"]["epochs"]) is float


def test_a_run_overrides_only_what_it_names():
    config = resolve({"runs": {"base": {}, "hot": nested("pretraining.optimizer.beta_1", 0.5)}})
    hot, base = (run_section(config, run, "pretraining") for run in ("hot", "base"))
    assert hot["optimizer"].pop("beta_1") == 0.5 != base["optimizer"].pop("beta_1")
    assert hot == base


@pytest.mark.parametrize(
    "starts, words",
    [
        ({"base": (None, None), "branch": ("base", 1500), "twig": ("branch", 2000)}, None),
        ({"a": ("b", 7)}, "continue_from.run: no run is called 'b'; there are: a"),
        ({"a": ("a", 7)}, "continue_from.run: in a circle: a → a"),
        ({"a": ("b", 7), "b": ("a", 7)}, "continue_from.run: in a circle: a → b → a"),
        ({"a": ("b", None), "b": (None, None)}, "run and step go together; found run: b"),
        ({"a": ("b", 3400), "b": (None, None)}, "3400 leaves nothing to train of steps: 3400"),
        ({"a": ("b", 3600), "b": (None, None)}, "3600 is beyond the last step of run 'b', 3400"),
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


TF = "which pretraining.engine: tensorflow does not have"
LONG = "word " * 62
HUB = {"dataset": "c/d", "revision": "0" * 40}
FILES = {"source": "files", "files": {"train": ["a.jsonl"]}}
RULES, FILTERS = "corpus.filters.quality.rules", "corpus.filters"
SEED, RATE = "pretraining.seed", "pretraining.optimizer.learning_rate"


def mix(**own):
    return {"source": "mix", "mix": {"a": own}}


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("seed", True, ": found True, expected integer from 0 to 4294967295"),
        ("pretraining.seed", -1, ": found -1, expected integer from 0 to 4294967295, or null"),
        ("preflight.required", "no", ": found 'no', expected boolean"),
        ("evaluation.mlm_probability", 1.0, ": found 1.0, expected number above 0 to below 1"),
        ("pretraining.optimizer.learning_rate", float("nan"), ": found nan, expected number"),
        ("pretraining.engine", "torch", ": found 'torch', expected"),
        ("tokenizer.kind", "unigam", "pretrained; did you mean 'unigram'?"),
        ("runs.hot.pretraining.lr", 1, ": unknown key"),
        ("report.runs", ["nope"], ": no run is called 'nope'; there are: base"),
        ("report.runs", ["base"] * 3, ": 'base' is named 3 times; once is enough"),
        ("corpus.group_by", "speaker", ": speaker, which the embedded corpus does not have"),
        ("corpus", {"source": "hub", "hub": {"dataset": "x/y"}}, ".hub.revision: missing"),
        ("corpus", {"files": {"test": ["a"]}}, "files.test. Write source: files beside it"),
        ("corpus", {"source": "hub", "hub": HUB, "files": {"train": ["a"]}}, "source: hub, which"),
        ("corpus", {"hub": {"splits": {"test": None}}}, "hub.splits. Write source: hub beside it"),
        ("corpus", FILES | {"group_by": "a", "group_per": "file"}, "are both set"),
        ("corpus", {"source": "hub", "hub": HUB, "group_per": "file"}, "source: hub has no files"),
        ("corpus.group_per", "heading", "which the embedded corpus does not have"),
        ("corpus", {"source": "mix"}, ".mix: empty; name the sources"),
        ("corpus", {"mix": {"a": {}}}, ".mix: names a, but corpus.source is embedded"),
        ("corpus", mix(source="web"), ".mix.a.source: found 'web'"),
        ("corpus", mix(weight=-1), "found -1.0, expected number above 0 to 1000"),
        ("corpus", mix(weight=float("nan")), "found nan, expected number above 0"),
        ("corpus", mix(source="files"), ".mix.a.files.train: empty; name at least one file"),
        ("corpus", mix(filters={"deduplicate": False}), "a.filters.deduplicate: concerns"),
        ("corpus", {"source": "mix", "mix": {"a b": {}}}, "'a b' cannot be a source's name"),
        ("corpus", mix() | {"group_by": "x"}, "Set it for each source"),
        (f"{FILTERS}.decontamination", {"also": ["finetuning"]}, "finetune.data.file names no"),
        ("corpus", mix(filters={"decontamination": {"also": ["test"]}}), "test: concerns the docu"),
        (
            FILTERS,
            {"deduplicate": False, "near_duplicates": {"enabled": True}},
            ".near_duplicates.enabled: true, but dedup",
        ),
        (f"{FILTERS}.language", {"model": "m.ftz"}, ".keep: empty, so that no document would be"),
        (f"{FILTERS}.language", {"keep": ["en"]}, "keep is set, and model is not"),
        (f"{FILTERS}.language", {"model": "m", "keep": ["en"] * 2}, "'en' is named 2 times"),
        (f"{FILTERS}.language.min_probability", 65, ": found 65.0, expected number from 0 to 1"),
        (f"{RULES}.min_words", 0, ": found 0, expected integer from 1 to"),
        (f"{RULES}.max_bullet_lines", 1.5, ": found 1.5, expected number from 0 to 1"),
        (f"{RULES}.max_wrods", 3, ": unknown key; did you mean 'max_words'?"),
        (
            RULES,
            {"min_mean_word_length": 5, "max_mean_word_length": 4},
            "max_mean_word_length: 4 is below min_mean_word_length 5",
        ),
        (RULES, {"min_stop_words": 9}, "min_stop_words: 9, but stop_words has 8 different ones"),
        ("sweep", {"pretraining.seeds": [1]}, "seeds: unknown key; did you mean 'seed'?"),
        ("sweep", {"config.source": ["files"]}, "config: unknown key; known keys: evaluation"),
        ("sweep", {"tokenizer.kind": ["bpe"]}, "tokenizer.kind: all runs share corpus, tokenizer"),
        ("sweep", {RATE: ["fast"]}, f"{RATE}: found 'fast', expected number"),
        ("sweep", {SEED: 3}, f"sweep.{SEED}: found 3, expected list with at least one item"),
        ("sweep", {SEED: [1, 1]}, f"{SEED}: 1 is named twice; keep one"),
        ("sweep", {"model.config_file": ["a/b.json"]}, "'a/b.json' cannot be part of a run's name"),
        ("sweep", {"evaluation.prompts": [["a [MASK]"]]}, "['a [MASK]'] cannot be part of a run's"),
        ("sweep", 3, ": found 3, expected section of keys and values"),
        ("evaluation.prompts", ["no mask"], ": 'no mask' has no [MASK]"),
        ("evaluation.prompts", [f"{LONG}[MASK]"], "has at least 65 tokens; shorten it to 64"),
        ("evaluation.minimal_pairs", [["same", "same"]], "'same' is on both sides of a pair"),
        ("evaluation.minimal_pairs", [["a", f"one {LONG}"]], "has at least 65 tokens"),
        ("evaluation.also", {"": ["a.txt"]}, ": a text without a name; give it one"),
        ("evaluation", {"random_token": 0.3}, ": it and random_token add up to 1.1"),
        ("evaluation", {"mask_token": 0.0, "random_token": 0.0}, "random_token are both 0"),
        ("finetune.task", "classification", ": classification needs data of its own"),
        ("finetune.data", {"source": "csv"}, ".file: missing"),
        ("finetune.also", ["nothing"], "[0]: nothing is no directory here, and no owner/name@C"),
        ("finetune.also", ["a/b@main"], "[0]: a/b@main, no directory here: 'main' is not a commit"),
        ("finetune.also", [f"a/b@{'0' * 40}"] * 2, ": 2 are called a/b@00000000; give them"),
        ("pretraining.optimizer.name", "moun", "one of: adamw, muon; did you mean 'muon'?"),
        ("pretraining.optimizer", {"name": "adamw", "momentum": 0.9}, ": 0.9, which is for muon,"),
        ("accelerator.deterministic", False, f": false, {TF}"),
        ("accelerator.processes", 2, f": several processes, {TF}"),
        ("accelerator.start", "hosts", f": several processes, {TF}"),
        ("accelerator", {"kind": "gpu", "virtual_replicas": 2}, "these are logical CPU devices"),
        ("pretraining.rematerialise", True, f": True, {TF}"),
        ("pretraining", {"engine": "jax", "steps_per_execution": 4}, "engine: jax does not have"),
        ("pretraining.attend", "document", f": document, {TF}"),
        ("tokenizer.character_coverage", 0.9, ": 0.9; kind unigram takes 0.98 to 1"),
        (
            "tokenizer",
            {"kind": "wordpiece", "byte_fallback": True},
            ".byte_fallback: true is not for",
        ),
        *(
            ("tokenizer.special_tokens.mask", text, f": {text!r} is ordinary text")
            for text in ("mask", "[", "MASK]", "<1")
        ),
        ("model.config.vocab_size", 10**30, f": found {10**30}, expected integer from 1 to 10000"),
        ("model.config.num_hidden_layers", 2.5, ": found 2.5, expected integer"),
        ("model.config.layer_norm_eps", float("nan"), ": found nan, expected number"),
        ("model.config.layer_norm_eps", -1, ": found -1.0, expected number from 0 to below 1"),
        ("model.config.type_vocab_size", 0, ": found 0, expected integer from 1 to"),
        ("model.config.is_decoder", True, ": True makes a decoder of it"),
        ("model.config.pad_token_id", 7, ": the workflow sets it, from tokenizer and family"),
        ("model.config.num_attention_heads", 3, ": 3 attention heads do not divide"),
        ("model.config.num_attention_heads", 1, "neighbour_heads needs two heads or more, found 1"),
        ("model.config.position_embedding_type", "relative_key", "expected 'absolute'"),
        ("model.family", "albert", ": neighbour_heads needs one of the families roberta"),
        ("model.family", "tapas", ": 'tapas' is not supported: it reads tables, not text"),
    ],
)
def test_a_wrong_setting_is_told_with_what_is_expected(path, value, words):
    config = {"evaluation": {"prompts": []}} if "special" in path else {}
    (problem,) = problems(config | nested(path, value))
    assert words in problem and problem.startswith((path.rpartition(".")[0] or path, "model."))


@pytest.mark.parametrize(
    "path, value",
    [
        ("pretraining.optimizer", {"name": "muon", "momentum": 0.9}),
        ("tokenizer", {"character_coverage": 0.9, "kind": "bpe"}),
        ("corpus", FILES | {"group_by": "speaker"}),
        ("", {"accelerator": {"processes": 2}, "pretraining": {"engine": "jax"}}),
        ("", {"accelerator": {"start": "hosts"}, "pretraining": {"engine": "jax"}}),
        ("corpus", {"source": "embedded", "hub": HUB}),
        ("evaluation", {"prompts": [f"{LONG[5:]}[MASK]"], "minimal_pairs": [["a", LONG]]}),
        *(
            ("", {"tokenizer": {"special_tokens": {"mask": t}}, "evaluation": {"prompts": []}})
            for t in ("<mask>", "</s>", "__mask__", "【遮】")
        ),
    ],
)
def test_a_setting_that_suits_the_others_is_accepted(path, value):
    resolve(nested(path, value))


def test_every_number_has_bounds_and_beyond_them_is_refused():
    for path, hint, *_ in (*keys(), *keys(QualityRules)):
        while get_origin(bare := taken_apart(hint)[0]) is list:
            hint = get_args(bare)[0]
        if bare in (int, float):
            for beyond in (1e30, -1e30):
                with pytest.raises(ValidationError):
                    TypeAdapter(hint).validate_python(bare(beyond), strict=True)
            assert " from " in expected(hint) or " above " in expected(hint), path


def test_names_and_values_of_any_kind_are_shown_printable_and_short():
    wrong = {
        "model": {"config_file": "no\x1b[31m.json"},
        "tokenizer": {"special_tokens": {"mask": "a\x1b[2J b"}},
        "report": {"runs": ["\x1b" * 3 + "r" * 5000]},
        "evaluation": {"prompts": ["\u202e " + "word" * 5000]},
    }
    with pytest.raises(ConfigError) as caught:
        resolve(wrong)
    message = str(caught.value)
    assert len(caught.value.problems) >= 4 and len(message) < 3000
    assert "\x1b" not in message and "\u202e" not in message and "no\\x1b[31m.json" in message


def test_keys_that_yaml_does_not_read_as_text_are_taken_as_text():
    runs = {7: {}, 2.5: {"pretraining": {"seed": 1}}}
    day = {datetime.date(2024, 1, 1): {"pretraining": {"seed": 2}}}
    assert list(resolve({"runs": runs | day})["runs"]) == ["7", "2.5", "2024-01-01"]


@pytest.mark.parametrize(
    "ko, small",
    [
        ({}, {}),
        ({"seed": 0}, {"epochs": None}),
        ({"checkpoint": {"keep": 9}}, {}),
        ({"engine": "tensorflow"}, {}),
    ],
)
def test_runs_of_the_same_settings_are_refused_with_their_names(ko, small):
    wide = {"model": {"config": {"hidden_size": 256}}}
    runs = {"ko": {"pretraining": ko}, "small": {"pretraining": small}, "wide": wide}
    (problem,) = problems({"runs": runs})
    assert problem.startswith("runs: ko, small have the same settings")
    assert len(problems({"seed": -1, "runs": runs})) == 1


def test_a_job_cannot_read_a_key_that_its_rule_leaves_out():
    part = {"seed": 3, "optimizer": {"learning_rate": 0.5}}
    section = Pretraining.of_param(part)
    assert (section.seed, section.optimizer.learning_rate) == (3, 0.5)
    for left_out in ("section.steps", "section.optimizer.name"):
        with pytest.raises(AttributeError):
            eval(left_out)
    assert section.model_dump() == part
