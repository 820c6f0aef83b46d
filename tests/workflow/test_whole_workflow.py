"""From a fresh copy to a report: what a newcomer sees, and the same bytes in the next copy."""

import json
import re

import pytest
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoTokenizer

from mlm.model.architecture import Architecture, parameter_shapes

from .conftest import ROOT, Project, copy_of_the_repository, made

pytestmark = pytest.mark.workflow

#: What libraries print, and Snakemake's account of jobs.
OF_LIBRARIES = "tensorflow/|XLA|transformers|rule |jobid"


def test_a_run_prints_the_beginning_and_the_end_of_each_stage_and_little_more(built):
    shown = (built.path / "built.log").read_text()
    begun = re.findall(r"^(.+): started$", shown, re.M)
    ended = re.findall(r"^(.+): done in [\d.]+ (?:s|min)(?: \(.+\))?$", shown, re.M)
    assert "pretrain base" in begun and sorted(begun) == sorted(ended)
    assert f"{len(begun)} jobs: corpus, tokenizer, 4 × shard, " in shown
    assert len(shown.splitlines()) <= 2 * len(begun) + 8, shown
    assert not re.search(OF_LIBRARIES, shown), shown
    for stage in ("tokenizer", "fill mask base", "evaluate base"):
        assert re.search(f"^{stage}: done in .+ \\(.+\\)$", shown, re.M), shown
    answer = json.loads((built.path / "results/report.json").read_text())["answer"]["line"]
    assert f"The report: results/report.html\n{answer}\n" in shown
    (own,) = (built.path / ".snakemake/log").glob("*.log")
    assert "rule pretrain:" in own.read_text()
    assert "step 12/12" in (built.path / "logs/pretrain/base.log").read_text()


SNAKEFILE = str(ROOT / "Snakefile")
#: The last result of the data and the training.
MODEL = "results/runs/base/model/model.safetensors"


@pytest.mark.parametrize("targets", [[MODEL], pytest.param([], marks=pytest.mark.slow)], ids=len)
def test_another_copy_at_another_number_of_cores_has_the_same_bytes(
    built, tmp_path_factory, targets
):
    again = made(f"small-again-{len(targets)}", 3, tmp_path_factory, *targets)
    first, second = built.digests(), again.digests()
    assert MODEL.removeprefix("results/") in second and second.keys() <= first.keys()
    assert targets or first.keys() == second.keys()
    assert [n for n in second if first[n] != second[n]] == []
    losses = [
        # All but the two columns of the clock.
        [line.rsplit(",", 2)[0] for line in open(p.path / "results/runs/base/training.csv")]
        for p in (built, again)
    ]
    assert losses[0] == losses[1]


def test_transformers_knows_the_model_and_its_tokenizer(built):
    """Its classes open them, in tests/pytorch and tests/transformers4."""
    place = built.path / "results/runs/base/model"
    config = AutoConfig.from_pretrained(place)
    stored = load_file(place / "model.safetensors")
    shapes = {name: value.shape for name, value in stored.items()}
    assert shapes == parameter_shapes(Architecture.of(config.to_dict()))
    for directory in (place, built.path / "results/tokenizer"):
        t = AutoTokenizer.from_pretrained(directory)
        special = t.cls_token_id, t.pad_token_id, t.sep_token_id, t.unk_token_id, t.mask_token_id
        assert special == (0, 1, 2, 3, 4)
        assert t("The [MASK] of the Union. " * 500)["input_ids"].count(4) == 500
    t = AutoTokenizer.from_pretrained(place)
    assert len(t("The Union. " * 500, truncation=True)["input_ids"]) == 32


def test_snakemakes_own_report_and_graph_are_made(built):
    built.snakemake("--report", "x.html")
    assert (built.path / "x.html").stat().st_size > 100_000
    graph = built.dry_run("--dag")
    assert "digraph" in graph and "pretrain" in graph


def test_a_bad_configuration_is_one_message_and_nothing_written(tmp_path):
    project = Project(tmp_path)
    project.write_config({"modle": {}, "seed": "many"})
    ran = project.snakemake("-s", SNAKEFILE, check=False)
    assert ran.returncode != 0
    for message in (
        "modle: unknown key; did you mean 'model'?",
        "seed: found 'many'; input should be",
    ):
        assert message in ran.stdout and "Traceback" not in ran.stdout
    assert not (tmp_path / "results").exists()


def test_an_error_in_a_stage_is_told_in_words_and_leaves_no_output(tmp_path):
    project = copy_of_the_repository(tmp_path)
    (tmp_path / "data" / "train-a.txt").write_bytes(b"good\n" * 1000 + b"bad \xff\n")
    ran = project.snakemake("results/corpus/train.parquet", check=False)
    assert ran.returncode != 0 and "Traceback" not in ran.stdout
    place = "train-a.txt, line 1001, byte offset 5004: byte 0xff is not UTF-8"
    assert "Error in rule corpus: " in ran.stdout and place in ran.stdout
    # Nothing follows but where to read on.
    log = "logs/corpus/corpus.log"
    end = ran.stdout.split("Error in rule corpus: ")[1].split("\n", 1)[1]
    assert re.fullmatch(f"Its log: {log}\n\nComplete log.+\nElapsed time.+\n", end), end
    assert place in (tmp_path / log).read_text(encoding="utf-8")
    left = [file.name for file in tmp_path.glob("results/**/*") if file.is_file()]
    assert left == ["configuration.yaml"], "the names of the overlays alone"


def test_what_snakemake_merges_away_is_still_known(tmp_path):
    """Keys that stand twice, and runs of an overlay beside those of config.yaml."""
    project = Project(tmp_path)
    project.write_config({"runs": {"hot": {"pretraining": {"seed": 1}}}})
    shown = project.snakemake("-s", SNAKEFILE, "--dry-run").stdout
    assert "run=hot" in shown and "run=base" not in shown
    with (tmp_path / "tiny.yaml").open("a") as overlay:
        overlay.write("seed: 1\nseed: 2\n")
    ran = project.snakemake("-s", SNAKEFILE, "--dry-run", check=False)
    assert ran.returncode != 0 and "Traceback" not in ran.stdout
    assert "tiny.yaml, line " in ran.stdout and "seed is set in line " in ran.stdout
