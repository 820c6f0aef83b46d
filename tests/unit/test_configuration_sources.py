import copy
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake.settings.types import ConfigSettings
from snakemake.utils import update_config
from tests.conftest import refusal

from mlm.config.configuration import trainings
from mlm.config.overlays import (
    check_repeated,
    laid_over,
    read_overlay,
    read_settings,
    resolve,
    settings_of,
)
from mlm.foundations.atomic import write_json
from mlm.foundations.errors import ConfigError, MlmError

ROOT = Path(__file__).parents[2]
DEFAULTS = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def started_with(overlay: dict, edits: dict | None = None):
    """Settings as the Snakefile makes them: config.yaml with `edits`, then the overlay."""
    config = copy.deepcopy(DEFAULTS)
    update_config(config, edits or {})
    return laid_over(config, [overlay])


def settings_from(options: ConfigSettings, files: list):
    """Settings of a workflow of Snakemake that was started with `options`."""
    modifier = SimpleNamespace(skip_configfile=False)
    return settings_of(
        SimpleNamespace(
            modifier=modifier, is_main_process=False, config_settings=options, configfiles=files
        ),
        {},
    )


def test_config_yaml_as_it_is_sets_nothing():
    assert set(started_with({}).as_set()) == {"runs", "tokenizer"}
    assert started_with({}).shown() == resolve({}).shown()


def test_one_field_of_the_model_leaves_its_siblings_their_defaults():
    """As a module, the workflow gets the overlay alone; with --configfile, all of config.yaml."""
    runs = {"narrow": {"model": {"config": {"intermediate_size": 64}}}}
    as_module = resolve(overlay := {"model": {"config": {"hidden_size": 64}}, "runs": runs})
    assert as_module.shown() == started_with(overlay).shown()
    assert trainings(as_module)["narrow"].model.config.num_hidden_layers == 2


def test_runs_that_an_overlay_names_are_trained_alone_with_what_config_yaml_says_of_them():
    hot = {"pretraining": {"optimizer": {"learning_rate": 0.01}}}
    assert started_with({"runs": {"hot": hot}}).as_set()["runs"] == {"hot": hot}
    assert list(started_with({"runs": {"hot": hot, "base": {}}}).runs) == ["base", "hot"]
    edits = {"runs": {"wide": {"model": {"config": {"hidden_size": 256}}}}}
    assert list(started_with({"seed": 1}, edits).runs) == ["base", "wide"]
    assert started_with({"runs": {"wide": hot}}, edits).as_set()["runs"] == {
        "wide": edits["runs"]["wide"] | hot
    }


@pytest.mark.parametrize("preset", sorted(p.name for p in (ROOT / "presets").glob("*.yaml")))
def test_a_preset_is_accepted_with_those_that_its_comment_lays_it_over(
    preset, tmp_path, monkeypatch
):
    # What a user unpacks beside presets/adapt-minilm.yaml.
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "minilm" / "config.json", {"model_type": "bert"})
    for file in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "minilm" / file).touch()
    text = (ROOT / "presets" / preset).read_text(encoding="utf-8")
    commands = re.findall(r"--configfile (.*)", text)
    assert commands and any(preset in command for command in commands)
    for command in commands:
        overlay, files = {}, [ROOT / file for file in re.findall(r"presets/\S+\.yaml", command)]
        for file in files:
            update_config(overlay, yaml.safe_load(file.read_text(encoding="utf-8")))
        settings = started_with(overlay)
        assert read_settings(ROOT / "config.yaml", files).shown() == settings.shown()
        assert read_settings(ROOT / "config.yaml", files, ["seed=7"]).seed == 7 != settings.seed


def lengths(settings, run="base"):
    section = settings.sections_of_runs()[run].pretraining
    lengths = {key: getattr(section, key) for key in ("steps", "epochs", "tokens")}
    return {key: length for key, length in lengths.items() if length is not None}


@pytest.mark.parametrize("own", [{"epochs": 3.0}, {"tokens": 1000}, {"steps": 7}])
@pytest.mark.parametrize("said", [{}, {"steps": None}])
@pytest.mark.parametrize("edits", [{}, {"steps": 5}, {"steps": None, "tokens": 9}])
def test_the_length_of_an_overlay_or_a_run_takes_the_place_of_another(own, said, edits):
    own, under = {"pretraining": said | own}, {"pretraining": edits}
    own_length = {k: v for k, v in own["pretraining"].items() if v is not None}
    assert lengths(started_with(own, under)) == own_length
    assert lengths(resolve(own)) == own_length
    settings = started_with({"runs": {"base": {}, "long": own}}, under)
    assert lengths(settings, "long") == own_length
    assert lengths(settings) == lengths(started_with({}, under))
    assert lengths(started_with(under | {"runs": {"long": own}}), "long") == own_length


def test_two_lengths_that_a_user_sets_or_none_stay_an_error():
    two = {"pretraining": {"steps": 5, "epochs": 3}}
    words = r"set one, the others to null; found steps: 5, epochs: 3\.0"
    for overlay, edits in ((two, {}), ({}, two), ({"runs": {"base": two}}, {})):
        with pytest.raises(ConfigError, match=words):
            started_with(overlay, edits)
    with pytest.raises(ConfigError, match=r"found none of them$"):
        started_with({"pretraining": {"steps": None}})
    assert lengths(started_with({}, {"pretraining": {"epochs": 3}})) == {"epochs": 3}
    assert lengths(started_with({"pretraining": {"steps": 5}}, {"pretraining": {"epochs": 3}}))


TWICE = "line 4: not valid YAML: config is set in line 2 of the same section, too; keep one"


@pytest.mark.parametrize(
    "content, words",
    [
        (b"seed: 1\nreport: {title: Gr\xfc\xdfe}\n", "cannot be read as UTF-8 ("),
        (b"seed: 1\n---\nseed: 2\n", "line 2: not valid YAML: expected a single document"),
        (b"model:\n\tfamily: bert\n", "line 2: not valid YAML: while scanning for the next token"),
        (b"seed: !!python/name:os.sep\n", "line 1: not valid YAML: could not determine"),
        (b"- 1\n", "holds no keys"),
        (b"model:\n  config: {hidden_size: 4}\n  family: bert\n  config: {}\n", TWICE),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_line_and_remedy(tmp_path, content, words):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    with pytest.raises(MlmError, match=re.escape(f"--configfile {file}")) as caught:
        read_overlay(file)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    if words == TWICE:  # which Snakemake merges away
        with pytest.raises(MlmError, match=TWICE):
            settings_from(ConfigSettings(configfiles=[file]), [file])


def test_a_key_is_the_text_that_it_is(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("runs: {no: {}, 7: &seven {seed: 1}, 2020-01-01: {<<: *seven, <<: *seven}}")
    runs = {"no": {}, "7": {"seed": 1}, "2020-01-01": {"seed": 1}}
    assert read_overlay(file) == {"runs": runs}
    file.write_text("a: {b: &b {<<: {seed: 1}, seed: 2}}\nc: {<<: *b}")
    assert read_overlay(file) == {"a": {"b": {"seed": 2}}, "c": {"seed": 2}}


@pytest.mark.parametrize(
    "arguments, option",
    [
        (["--configfile", "a.yaml", "--cores", "2", "--configfiles=b.yaml"], "--configfile"),
        (["--config", "seed=1", "-C", "report={}"], "--config"),
        (["-Cseed=1", "--config=seed=2"], "--config"),
        (["--configfile", "a.yaml", "b.yaml", "--config", "seed=1", "report={}"], None),
    ],
)
def test_an_option_of_which_snakemake_would_drop_the_first_is_refused(arguments, option):
    if option:
        assert refusal(check_repeated, arguments).startswith(f"{option} is set 2 times")
    else:
        check_repeated(arguments)


def test_the_length_of_the_last_overlay_counts(tmp_path):
    """Also of `--config`, after the files."""
    named = []
    for name, length in (("a", "steps: null, epochs: 10"), ("b", "steps: 500")):
        named.append(tmp_path / f"{name}.yaml")
        named[-1].write_text(f"pretraining: {{{length}}}")
    for files, assigned, expected in (
        (named, {}, {"steps": 500, "epochs": None, "tokens": None}),
        (named[::-1], {}, {"steps": None, "epochs": 10.0, "tokens": None}),
        (named, {"pretraining": {"tokens": 7}}, {"steps": None, "epochs": None, "tokens": 7}),
    ):
        options = ConfigSettings(configfiles=files, config=assigned)
        settings = settings_from(options, [ROOT / "config.yaml", *files])
        assert lengths(settings) == {k: v for k, v in expected.items() if v is not None}
    cleared = ConfigSettings(configfiles=named, config={"pretraining": None})
    with pytest.raises(ConfigError, match="pretraining: found null"):
        settings_from(cleared, named)
