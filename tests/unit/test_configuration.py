"""The configuration tells all its problems at once and is canonical when it has none."""

import datetime
from pathlib import Path
from typing import get_args, get_origin

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from mlm.config.configuration import Configuration
from mlm.config.fields import SPLITS, Section, expected, is_section, taken_apart
from mlm.config.filters import QualityRules
from mlm.config.generation import (
    configuration_md,
    keys,
    schema_yaml,
)
from mlm.config.pretraining import Pretraining
from mlm.config.resolution import resolve, run_section
from mlm.foundations.errors import ConfigError

ROOT = Path(__file__).parents[2]


def problems(config):
    with pytest.raises(ConfigError) as caught:
        resolve(config)
    return caught.value.problems


def commented(text):
    """The dotted path of each key in a YAML file, with the comment above it in one line."""
    way, comment = [], []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            comment.append(bare[1:].strip())
            continue
        if bare and not bare.startswith("- "):
            way[(len(line) - len(bare)) // 2 :] = [bare.partition(":")[0]]
            yield ".".join(way), " ".join(comment)
        comment = []


def test_what_config_yaml_shows_are_defaults_and_most_is_left_to_the_page_of_all_keys():
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    assert resolve({}) == resolve(yaml.safe_load(text))
    assert len(text.splitlines()) <= 200


def test_config_yaml_the_page_of_all_keys_and_the_schema_are_current():
    """After an edit in scripts/mlm/config/: python scripts/generate_config.py"""
    described = {path: text for path, *_, text in keys()}
    for path, comment in commented((ROOT / "config.yaml").read_text(encoding="utf-8")):
        assert described[path] == comment, path
    for file, made in (
        ("docs/configuration.md", configuration_md()),
        ("schemas/config.schema.yaml", schema_yaml()),
    ):
        assert (ROOT / file).read_text(encoding="utf-8") == made, file


def test_every_key_is_described_and_they_are_not_too_many():
    """What maps names to values counts once: the splits, special tokens, placeholders of personal
    data, and fields of transformers' configuration."""
    found = {p: text for p, hint, _, text in keys() if not is_section(taken_apart(hint)[0])}
    assert [path for path, text in found.items() if not text] == []
    mappings = (
        "tokenizer.special_tokens",
        "corpus.filters.personal_data.placeholders",
        "model.config",
    )
    counted = {
        above
        if path.endswith(tuple(f".{split}" for split in SPLITS)) or above in mappings
        else path
        for path in found
        if (above := path.rpartition(".")[0]) or path
    }
    assert len(counted) <= 190
    assert [rule for rule, *_, text in keys(QualityRules) if not text] == []


def test_the_schema_says_what_the_models_say():
    """An editor that uses the schema refuses what the workflow refuses, but for contradictions."""
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


@pytest.mark.parametrize("source", [{}, {"source": "other"}])
@pytest.mark.parametrize(
    "name, section, keys",
    [
        ("files", {"train": ["a.txt"]}, "corpus.files.train"),
        ("files", {"test": ["a.txt"], "document_per": "file"}, "corpus.files.test, "),
        ("hub", {"dataset": "a/b"}, "corpus.hub.dataset"),
        ("hub", {"splits": {"test": None}}, "corpus.hub.splits"),
    ],
)
def test_a_corpus_beside_another_source_is_told_what_to_write(source, name, section, keys):
    other = {"files": {"train": ["b.txt"]}, "hub": {"dataset": "c/d", "revision": "0" * 40}}
    if source == {"source": "other"}:
        (kind,) = other.keys() - {name}
        source = {"source": kind, kind: other[kind]}
    (problem,) = problems({"corpus": source | {name: section}})
    assert problem.startswith(f"corpus.source: {source.get('source', 'embedded')}, which does")
    assert keys in problem and f"Write source: {name}" in problem


def test_the_embedded_corpus_that_is_asked_for_may_lie_over_another():
    hub = {"dataset": "c/d", "revision": "0" * 40}
    assert resolve({"corpus": {"source": "embedded", "hub": hub}})["corpus"]["hub"]["dataset"]


def test_numbers_are_the_same_setting_however_they_are_written():
    def rate(text):
        config = yaml.safe_load(f"pretraining: {{optimizer: {{learning_rate: {text}}}}}")
        return resolve(config)["pretraining"]["optimizer"]["learning_rate"]

    assert rate("1.0e-4") == rate("0.0001") == rate("1e-4") == 1e-4
    whole = rate("1")
    assert whole == 1.0 and type(whole) is float


def test_text_from_the_command_line_is_the_same_setting():
    """Snakemake's --config leaves every value inside a nested one as text."""
    typed = {
        "preflight": {"required": False},
        "pretraining": {"steps": None, "epochs": 3, "masking": {"mlm_probability": 0.2}},
        "model": {"config": {"hidden_size": 64, "hidden_act": "gelu", "layer_norm_eps": 1e-5}},
    }
    text = {
        "preflight": {"required": "false"},
        "pretraining": {"steps": "null", "epochs": "3", "masking": {"mlm_probability": "0.2"}},
        "model": {"config": {"hidden_size": "64", "hidden_act": "gelu", "layer_norm_eps": "1e-5"}},
    }
    found = resolve(text)
    assert found == resolve(typed)
    assert type(found["model"]["config"]["hidden_size"]) is int
    assert problems({"preflight": {"required": "no"}}) == [
        "preflight.required: found 'no', expected boolean"
    ]


def test_a_run_overrides_only_what_it_names():
    config = resolve(
        {"runs": {"base": {}, "hot": {"pretraining": {"optimizer": {"learning_rate": 1.0}}}}}
    )
    hot, base = (run_section(config, run, "pretraining") for run in ("hot", "base"))
    assert hot["optimizer"]["learning_rate"] == 1.0
    hot["optimizer"]["learning_rate"] = base["optimizer"]["learning_rate"]
    assert hot == base


def _continued(**runs) -> dict:
    """A configuration in which each run continues another: its name, and after which step."""
    starts = {name: dict(zip(("run", "step"), start, strict=True)) for name, start in runs.items()}
    return {
        "runs": {name: {"pretraining": {"continue_from": start}} for name, start in starts.items()}
    }


def test_a_run_may_continue_another():
    resolve(_continued(base=(None, None), branch=("base", 1500), twig=("branch", 2000)))


@pytest.mark.parametrize(
    "runs, words",
    [
        ({"a": ("b", 7)}, "continue_from.run: no run is called 'b'; there are: a"),
        ({"a": ("a", 7)}, "continue_from.run: in a circle: a → a"),
        ({"a": ("b", 7), "b": ("a", 7)}, "continue_from.run: in a circle: a → b → a"),
        ({"a": ("b", None), "b": (None, None)}, "run and step go together; found run: b"),
        ({"a": ("b", 2400), "b": (None, None)}, "2400 leaves nothing to train of steps: 2400"),
        ({"a": ("b", 2500), "b": (None, None)}, "2500 is beyond the last step of run 'b', 2400"),
    ],
)
def test_a_run_that_cannot_continue_another_is_told(runs, words):
    assert any(words in line for line in problems(_continued(**runs)))


TF = "which pretraining.engine: tensorflow does not have"
MASKS = "mask_token and random_token are both 0"


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("seed", True, ": found True, expected integer from 0 to 4294967295"),
        ("pretraining.seed", -1, ": found -1, expected integer from 0 to 4294967295, or null"),
        ("shards.count.train", 0, ": found 0, expected integer from 1 to 99999"),
        ("evaluation.mlm_probability", 1.0, ": found 1.0, expected number above 0 and below 1"),
        ("model.config.vocab_size", 10**30, f": found {10**30}, expected integer from 1 to 10000"),
        ("pretraining.optimizer.learning_rate", float("nan"), ": nan is not a finite number"),
        ("tokenizer.kind", "unigam", ": found 'unigam', expected one of: unigram, bpe"),
        ("tokenizer.kind", "unigam", "pretrained; did you mean 'unigram'?"),
        ("tokenizer.max_training_bytes", 1, ": found 1, expected integer from 100000 to"),
        ("runs.hot.pretraining.lr", 1, ": unknown key"),
        ("report.runs", ["nope"], ": no run is called 'nope'; there are: base"),
        ("report.runs", ["base"] * 3, ": 'base' is named 3 times; once is enough"),
        ("corpus.group_by", "speaker", ": speaker, which the embedded corpus does not have"),
        ("corpus", {"source": "hub", "hub": {"dataset": "x/y"}}, ".hub.revision: missing"),
        ("evaluation.prompts", ["no mask"], ": 'no mask' holds [MASK] 0 times"),
        ("evaluation.prompts", ["[MASK] [MASK]"], ": '[MASK] [MASK]' holds [MASK] 2 times"),
        ("evaluation", {"random_token": 0.3}, ": mask_token and random_token add up to 1.1"),
        ("evaluation", {"mask_token": 0.0, "random_token": 0.0}, f": {MASKS}"),
        ("model.config", {"num_attention_heads": 3}, ": 3 attention heads do not divide"),
        ("model.config.num_attention_heads", 1, "neighbour_heads needs two heads or more, found 1"),
        ("model.config.num_attention_heads", 64, "neighbour_heads needs heads at least 4 wide"),
        ("model.config.position_embedding_type", "relative_key", "absolute, found relative_key"),
        ("finetune.task", "classification", ": classification needs data of its own"),
        ("pretraining.optimizer", {"name": "adamw", "momentum": 0.9}, "which is for muon"),
        ("accelerator.deterministic", False, f": false, {TF}"),
        ("pretraining.rematerialise", True, f": True, {TF}"),
        ("pretraining", {"engine": "jax", "steps_per_execution": 4}, "engine: jax does not have"),
        ("tokenizer.character_coverage", 0.9, ": 0.9; sentencepiece, which trains the kind"),
        ("tokenizer", {"kind": "wordpiece", "byte_fallback": True}, ".byte_fallback: true is not"),
    ],
)
def test_a_wrong_setting_is_told_with_what_is_expected(path, value, words):
    config = value
    for key in reversed(path.split(".")):
        config = {key: config}
    (problem,) = problems(config)
    assert words in problem and problem.startswith((path, "model.initialisation"))


@pytest.mark.parametrize(
    "config",
    [
        {"pretraining": {"optimizer": {"name": "muon", "momentum": 0.9}}},
        {"tokenizer": {"character_coverage": 0.98}},
        {"tokenizer": {"character_coverage": 0.9, "kind": "bpe"}},
        {"corpus": {"source": "files", "files": {"train": ["a.jsonl"]}, "group_by": "speaker"}},
    ],
)
def test_a_setting_that_suits_the_others_is_accepted(config):
    resolve(config)


def test_a_prompt_of_more_words_than_the_model_takes_tokens_is_refused():
    """Each word is a token at least, and two more stand around the prompt."""
    prompt = "word " * 61 + "[MASK]"
    resolve({"evaluation": {"prompts": [prompt]}})
    long = {"evaluation": {"prompts": [f"one {prompt}"]}}
    (line,) = problems(long)
    assert "evaluation.prompts: 'one word" in line and "65 tokens" in line and "at most 64" in line
    resolve(long | {"model": {"config": {"max_position_embeddings": 128}}})
    in_one_run = {"runs": {"short": long}}
    assert problems(in_one_run)[0].startswith("runs.short: evaluation.prompts: 'one word")


def test_a_minimal_pair_has_two_sentences_that_fit():
    assert problems({"evaluation": {"minimal_pairs": [["same", "same"]]}}) == [
        "evaluation.minimal_pairs: 'same' is on both sides of a pair; change one"
    ]
    sentence = "word " * 62
    resolve({"evaluation": {"minimal_pairs": [["a", sentence]]}})
    (line,) = problems({"evaluation": {"minimal_pairs": [["a", f"one {sentence}"]]}})
    assert "evaluation.minimal_pairs: 'one word" in line and "at most 64" in line


def test_what_later_stages_would_refuse_is_told_before_the_first_job():
    found = problems(
        {
            "preflight": {
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
        "preflight.targets: 'v33:2x2' is not a TPU topology; nearest: v",
        "preflight.targets: 'v5e' is not a TPU topology; nearest: v",
        "finetune.data.file: missing",
        "runs.base: model.family: 'robberta' is not a masked language model that is trained here; "
        "did you mean 'roberta'?",
        "runs.file: model.config_file: nowhere.json: no such file",
        "runs.shared: model.initialisation.attention: neighbour_heads is not made for albert",
        "runs.short: model.config.max_position_embeddings: 65; sequences of 64 tokens need at "
        "least 66",
    ):
        assert any(problem.startswith(line) for problem in found), line
    assert len(found) == 7


def test_fine_tuning_of_a_family_without_an_encoder_in_jax_is_told_before_the_first_job(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "distilbert"}')
    runs = {
        "base": {},
        "light": {"model": {"config_file": str(tmp_path / "config.json")}},
        "other": {"model": {"family": "electra"}},
    }
    found = problems({"finetune": {"enabled": True}, "runs": runs})
    told = (
        "is not fine-tuned here; choose one of bert, modernbert, roberta, roberta-prelayernorm, "
        "xlm-roberta, or set it to false"
    )
    assert found == [
        f"runs.light: finetune.enabled: 'distilbert' {told}",
        f"runs.other: finetune.enabled: 'electra' {told}",
    ]
    resolve({"runs": runs})


def _numbers(model=Configuration, path=""):
    """Every number of the configuration, in lists too: where it is, and its annotation."""
    for name, hint in ((n, model.hints()[n]) for n in model.model_fields):
        here, bare = f"{path}.{name}"[0 if path else 1 :], taken_apart(hint)[0]
        while get_origin(bare) in (list, dict):
            hint = get_args(bare)[-1]
            bare = taken_apart(hint)[0]
        if isinstance(bare, type) and issubclass(bare, Section):
            yield from _numbers(bare, here)
        elif bare in (int, float):
            yield here, hint


@pytest.mark.parametrize("path, hint", list(_numbers()))
def test_every_number_has_bounds_and_beyond_them_is_refused(path, hint):
    adapter, words = TypeAdapter(hint), expected(hint)
    for beyond in (1e30, -1e30):
        value = int(beyond) if taken_apart(hint)[0] is int else beyond
        with pytest.raises(ValidationError):
            adapter.validate_python(value, strict=True)
    assert " from " in words or " above " in words


def test_names_and_values_of_any_kind_are_shown_printable_and_short():
    with pytest.raises(ConfigError) as caught:
        resolve(
            {
                "model": {"config_file": "no\x1b[31m.json"},
                "tokenizer": {"special_tokens": {"mask": "a\x1b[2J b"}},
                "report": {"runs": ["\x1b" * 3 + "r" * 5000]},
                "evaluation": {"prompts": ["\u202e " + "word" * 5000]},
                "runs": {"a": {"pretraining": {"continue_from": {"run": "x\x1b[1m", "step": 1}}}},
            }
        )
    message = str(caught.value)
    assert len(caught.value.problems) >= 5 and len(message) < 3000
    assert "\x1b" not in message and "\u202e" not in message and "no\\x1b[31m.json" in message


def test_keys_that_yaml_does_not_read_as_text_are_taken_as_text():
    runs = {7: {}, 2.5: {"pretraining": {"seed": 1}}}
    day = {datetime.date(2024, 1, 1): {"pretraining": {"seed": 2}}}
    assert list(resolve({"runs": runs | day})["runs"]) == ["7", "2.5", "2024-01-01"]


def test_runs_are_not_compared_beside_another_problem():
    runs = {"ko": {"pretraining": {"seed": -1}}, "small": {"pretraining": {"seed": "x"}}}
    found = problems({"runs": runs})
    assert len(found) == 2 and not any("same settings" in line for line in found)


@pytest.mark.parametrize(
    "runs",
    [
        {"ko": {}, "small": {}, "wide": {"model": {"config": {"hidden_size": 256}}}},
        {"ko": {"pretraining": {"seed": 0}}, "small": {"pretraining": {"epochs": None}}},
        {"ko": {"pretraining": {"checkpoint": {"keep": 9}}}, "small": None},
        {"ko": {"pretraining": {"engine": "tensorflow"}}, "small": {}},
        {
            "ko": {"pretraining": {"forget": ["document:7", "document:8"]}},
            "small": {"pretraining": {"forget": ["document:8", "document:7"]}},
        },
    ],
)
def test_runs_of_the_same_settings_are_refused_with_their_names(runs):
    (problem,) = problems({"runs": runs})
    assert problem.startswith("runs: ko, small have the same settings")
    assert "The runs of several overlays are added up" in problem


def test_a_special_token_is_put_between_marks_and_is_no_ordinary_text():
    def config(mask: str) -> dict:
        return {"tokenizer": {"special_tokens": {"mask": mask}}, "evaluation": {"prompts": []}}

    for text in ("mask", "the", "[", "…", "MASK]", "<1"):
        (problem,) = problems(config(text))
        assert f"tokenizer.special_tokens.mask: {text!r} is ordinary" in problem
    for text in ("<mask>", "[MASK]", "</s>", "<|mask|>", "__mask__", "【遮】"):
        resolve(config(text))


def test_a_job_cannot_read_a_key_that_its_rule_leaves_out():
    part = {"seed": 3, "optimizer": {"learning_rate": 0.5}}
    section = Pretraining.of_param(part)
    assert (section.seed, section.optimizer.learning_rate) == (3, 0.5)
    for left_out in ("section.steps", "section.optimizer.name"):
        with pytest.raises(AttributeError):
            eval(left_out)
    assert section.model_dump() == part
