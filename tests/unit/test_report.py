import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
import report_artefacts as made
from report_results import hostile as hostile_results
from report_results import page_of, results_in, written
from test_finetuning_report import metrics

from mlm.config.overlays import resolve
from mlm.corpus.artefacts import FilesSource, SourceFile
from mlm.evaluation.artefacts import EvaluationFigures
from mlm.foundations.artefacts import write_artefact
from mlm.foundations.errors import HIDDEN, MlmError
from mlm.report.page import numbers_of, render
from mlm.report.plots import figures
from mlm.report.report_inputs import EvaluatedRun
from mlm.report.wording import FIGURES


class Page(HTMLParser):
    """The elements with their attributes, and all text but that of style sheets."""

    def __init__(self, html: str):
        super().__init__()
        self.elements, self.text, self._tag = [], "", ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._tag = tag

    def handle_endtag(self, tag):
        self._tag = ""

    def handle_data(self, data):
        if self._tag != "style":
            self.text += data

    def all(self, *tags: str) -> list[dict]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The files of a report on three runs, two of which differ in the seed alone."""
    root = tmp_path_factory.mktemp("three")
    runs = {
        "base": {},
        "seed-1": {"pretraining": {"seed": 1}},
        "wide": {"model": {"config": {"hidden_size": 256}}},
    }
    losses = {"base": 4.90, "seed-1": 4.94, "wide": 4.55}
    return written(results_in(root / "artefacts", runs, losses), root / "report")


@pytest.fixture(scope="module")
def html(three):
    return three["report.html"].decode("utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_page_asks_for_nothing_from_outside(page, html):
    assert not page.all("script", "img", "iframe")
    assert all(a["href"].startswith(("#", "data:")) for a in page.all("a", "link"))
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)", html))
    (policy,) = (a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique_links_lead_somewhere_and_every_figure_has_its_words(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in page.all("a")} | {
        a["xlink:href"][1:] for a in page.all("use")
    }
    assert targets <= set(ids)
    images = [a for a in page.all("svg") if a.get("role") == "img"]
    assert len(images) == len(page.all("svg")) == len(FIGURES)
    titles = {a["id"] for a in page.all("title") if "id" in a}
    assert {a["aria-labelledby"] for a in images} == titles


def test_the_best_run_is_marked_and_differences_are_judged(page, html):
    best = re.search(r'<tr class="best">.*?</tr>', html, re.DOTALL)[0]
    assert "wide" in best and html.count('<tr class="best">') == 1
    table = re.search(r"Table: Runs compared.*?</table>", html, re.DOTALL)[0].replace("<wbr>", "")
    assert re.findall(r"</span>(base|seed-1|wide)", table) == ["wide", "base", "seed-1"]
    assert table.count('interval worse">worse') == 2
    assert "4.920 ± 0.028" in page.text


def test_the_numbers_for_machines_hold_what_the_page_shows(three):
    numbers = json.loads(three["report.json"])
    assert numbers["format_version"] == 5
    assert numbers["answer"]["line"].startswith("The best of 3 runs, wide, is worse than counting")
    assert numbers["comparison"]["best"] == "wide"
    assert numbers["runs"]["base"]["evaluation"]["test"]["loss"] == 4.90
    assert len(numbers["runs"]["base"]["curves"]["loss"]) == len(made.curves())
    assert numbers["artefacts"]["results/tokenizer/tokenizer.json"] == made.sha("tokenizer")
    assert "tokens_per_second" not in three["report.json"].decode()


def test_of_a_run_of_another_vocabulary_the_page_shows_bits_and_never_nats_or_accuracy(tmp_path):
    other = made.evaluation("base", 7.777, digests={"text": "another"} | {"manifest": "b"})
    results = results_in(tmp_path)
    own = replace(results.runs[0].evaluation, digests={"text": "text", "manifest": "a"})
    results = replace(
        results,
        runs=[replace(results.runs[0], evaluation=own)],
        also=[
            EvaluatedRun(
                name="coarse", digests={}, training=made.training("base", 7.777), evaluation=other
            )
        ],
    )
    page = Page(page_of(results))
    assert "coarse does not compare with base. The held-out documents differ" in page.text
    assert f"{other.test.bits_per_character:.3f}" in page.text
    assert "7.777" not in page.text and "7.477" not in page.text
    numbers = numbers_of(results)
    assert numbers["comparison"]["best"] == "base" and "coarse" in numbers["also"]
    assert numbers["comparison"]["standings"][1]["unpaired"].startswith("The held-out documents")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    return written(hostile_results(root), root / "report")["report.html"].decode("utf-8")


def test_hostile_text_makes_no_element_and_is_there_to_be_read(hostile):
    page = Page(hostile)
    assert not page.all("script", "img")
    assert (len(page.all("style")), len(page.all("svg"))) == (1, len(FIGURES))
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", hostile)
    for piece in ("<script>alert(1)</script>", "</style><style>", "{{ 7*7 }}", "W" * 2_000):
        assert piece in page.text
    assert all(name in page.text for name in ("U+202E", "U+0000", "U+001B"))


def test_hostile_names_leave_every_figure_well_formed_and_the_page_readable(tmp_path):
    """Names of runs reach the figures, unlike texts."""
    name = "a\x00\x1b<b>&\u202eb\ud800\n"
    tuned = replace(metrics(task="classification"), run=name)
    results = hostile_results(tmp_path)
    (run,) = results.runs
    results = replace(results, runs=[replace(run, name=name, finetune=tuned), run])
    drawn = figures(results)
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    html = render(results, drawn)
    assert not HIDDEN.search(html) and "‹U+202E›" in html


def test_an_empty_evaluation_still_gives_a_page(tmp_path):
    """What a tiny test split leaves out: no figures of a part, no sample, no curve."""
    nothing = {"loss": None, "accuracy": None, "num_predictions": 0}
    bare = made.evaluation(
        "base",
        frequency_bands=[nothing | {"label": "1 to 10", "first_rank": 1, "last_rank": 10}],
        **{"verdicts": [], "cluster_by": "sample"},
    )
    fill_mask = made.fill_mask("base", [])
    preview = replace(made.preview("base"), samples=[])
    results = results_in(tmp_path, evaluation=bare, fill_mask=fill_mask, preview=preview)
    results = replace(results, runs=[replace(results.runs[0], curves=[])])
    page = Page(render(results, figures(results)))
    assert {"preview", "fill_mask"}.isdisjoint(a["id"] for a in page.all("section"))
    assert "over the samples of one group" in page.text


def test_the_configuration_in_the_page_is_complete_and_gives_itself(html):
    code = r"<summary>Configuration as resolved.*?<code>(.*?)</code>"
    config = json.loads(unescape(re.search(code, html.replace("<wbr>", ""), re.DOTALL)[1]))
    assert resolve(config).shown() == config
    assert config["runs"]["seed-1"] == {"pretraining": {"seed": 1}}


def test_a_report_on_thousands_of_shards_and_files_stays_small(tmp_path):
    results = results_in(tmp_path)
    train = results.manifests["train"]
    one = train.shards[0]
    shards = tuple(replace(one, name=f"s{i}", path=f"results/s{i}") for i in range(30_000))
    manifests = results.manifests | {"train": replace(train, shards=shards)}
    files = [SourceFile(f"data/{i}.txt", 1, made.sha(str(i))) for i in range(30_000)]
    source = FilesSource("files", "line", tuple(files))
    corpora = {split: replace(found, source=source) for split, found in results.corpus.items()}
    html = page_of(replace(results, manifests=manifests, corpus=corpora))
    assert len(html) < 1_000_000
    assert "And 29,750 more shards of train" in html and "and 29,750 more" in html


@pytest.mark.parametrize("content, found", [({"format_version": 1}, "1"), ({}, "none")])
def test_another_format_version_or_none_is_refused_by_name(tmp_path, content, found):
    path = tmp_path / "evaluation.json"
    write_artefact(path, {"run": "base"} | content)
    version = EvaluationFigures.format_version
    with pytest.raises(MlmError, match=rf"\.json: format version {version} .* found {found}"):
        EvaluationFigures.read(path)
