import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def rules():
    for file in sorted((ROOT / "rules").glob("*.smk")):
        # A rule starts at the margin, or one level in below an `if`.
        parts = re.split(r"^ *rule (\w+):\n", file.read_text(), flags=re.M)
        yield from zip(parts[1::2], parts[2::2], strict=True)


WITH_SCRIPT = {name: body for name, body in rules() if "script:" in body}


@pytest.mark.parametrize("name", sorted(WITH_SCRIPT))
def test_a_rule_says_what_it_is_for_what_it_costs_and_which_script_it_runs(name):
    body = WITH_SCRIPT[name]
    assert body.lstrip().startswith('"""'), "a docstring comes first"
    assert [n for n in ("resources:", "mem_mb", "runtime") if n not in body] == []
    script = re.search(r'script:\s+"\.\./scripts/jobs/(\w+)\.py"', body)
    assert script and (ROOT / "scripts" / "jobs" / f"{script[1]}.py").is_file()


@pytest.mark.parametrize("profile", ["gke", "tpu-vm"])
def test_a_profile_gives_chips_to_every_rule_that_computes_on_them(profile):
    opens = re.compile(r'of_section\(\s*"accelerator",[^)]*"kind"')
    computing = {name for name, body in WITH_SCRIPT.items() if opens.search(body)}
    texts = "".join(file.read_text() for file in (ROOT / "rules").glob("*.smk"))
    also = re.findall(r"^ *use rule (\w+) as (\w+) with", texts, re.M)
    computing |= {new for old, new in also if old in computing}
    assert len(computing) == 4
    settings = yaml.safe_load((ROOT / "profiles" / profile / "config.yaml").read_text())
    given = {rule for rule, named in settings["set-resources"].items() if "tpu" in str(named)}
    assert given == computing


def test_no_rule_runs_python_in_the_workflow_itself():
    assert not [name for name, body in rules() if re.search(r"^ +run:", body, re.M)]


def test_scripts_never_read_the_whole_configuration():
    for script in (ROOT / "scripts").glob("**/*.py"):
        assert not re.search(r"\b(job|snakemake)\.config\b", script.read_text()), script.name


def test_wildcards_of_all_rules_are_constrained_in_one_place():
    """Said a second time, Snakemake forgets what the first said of outputs in a bucket."""
    files = [*(ROOT / "rules").glob("*.smk"), ROOT / "Snakefile"]
    assert [f.name for f in files if "\nwildcard_constraints:" in f.read_text()] == ["common.smk"]


def test_a_name_that_several_rule_files_use_stands_in_common():
    """Otherwise the order of the includes decides whether it is there."""
    texts = {f.name: f.read_text() for f in (ROOT / "rules").glob("*.smk")}
    elsewhere = {
        name: file
        for file, text in texts.items()
        for name in re.findall(r"^ *([A-Z_]{2,}) = ", text, re.M)
        # The checks come last, with a name that says so.
        if file not in ("common.smk", "results.smk")
    }
    assert elsewhere
    shared = {
        (name, file, other)
        for name, file in elsewhere.items()
        for other, text in texts.items()
        if other != file and re.search(rf"\b{name}\b", text)
    }
    assert shared == set()


def test_only_what_snakemake_schedules_by_travels_as_resources():
    """What a job reads as a setting is a param: compared, or `operational`."""
    for file in (ROOT / "rules").glob("*.smk"):
        for block in re.findall(r"^( +)resources:\n((?:\1 +.*\n)+)", file.read_text(), re.M):
            named = re.findall(rf"^{block[0]}    (\w+)=", block[1], re.M)
            assert set(named) <= {"mem_mb", "runtime"}, file.name
    for script in (ROOT / "scripts").rglob("*.py"):
        assert "job.resources" not in script.read_text(), script.name
