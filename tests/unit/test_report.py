import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import report_artefacts as made
from report_results import hostile as hostile_results
from report_results import page_of, results_in, written

from mlm.accelerators.artefacts import Finding, Memory, PreflightVerdict, Step, Target
from mlm.config.resolution import resolve
from mlm.corpus.artefacts import FilesSource, SourceFile, WordOverlap
from mlm.report.glossary import FIGURES
from mlm.report.report_inputs import read_run

VOID = {"meta", "link", "br", "path", "use", "rect", "wbr"}


class Page(HTMLParser):
    """Elements with their attributes, the chain of elements around them, and all text."""

    def __init__(self, html: str):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), tuple(self.open)))
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), tuple(self.open)))

    def handle_endtag(self, tag):
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1][0] != "style":
            self.text += data

    def all(self, tag: str) -> list[dict]:
        return [attributes for t, attributes, _ in self.elements if t == tag]


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
    assert not page.all("script") and not page.all("img") and not page.all("iframe")
    links = [a["href"] for a in page.all("a") + page.all("link")]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)]*)", html))
    policy = next(
        a["content"] for a in page.all("meta") if "content" in a and "src" in a["content"]
    )
    assert policy.startswith("default-src 'none'")


def test_every_figure_has_its_words(page):
    images = [a for a in page.all("svg") if a.get("role") == "img"]
    assert len(images) == len(page.all("svg")) == len(FIGURES)
    titles = {a["id"] for a in page.all("title") if "id" in a}
    assert {a["aria-labelledby"] for a in images} == titles
    assert "Validation: base:" in page.text


def test_ids_are_unique_and_links_lead_somewhere(page):
    ids = [a["id"] for _, a, _ in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in page.all("a")}
    targets |= {a["xlink:href"][1:] for a in page.all("use")}
    assert targets <= set(ids)


def test_every_heading_of_a_table_card_and_figure_leads_to_its_meaning(page):
    ids = {a["id"] for _, a, _ in page.elements if "id" in a}
    named = 0
    for (tag, has, around), (inner, link, _) in pairwise(page.elements):
        in_glossary = any(a.get("class") == "glossary" for _, a in around)
        if has.get("scope") == "col" or (tag in ("figcaption", "dt") and not in_glossary):
            named += 1
            assert inner == "a" and link["href"].startswith("#term-"), (tag, inner, link)
            assert link["href"][1:] in ids
    assert named > 80


def test_sections_are_those_asked_for_in_that_order(tmp_path):
    asked = ["fill_mask", "summary", "corpus"]
    found = Page(page_of(replace(results_in(tmp_path), sections=asked)))
    assert [a["id"] for a in found.all("section")] == [*asked, "glossary"]


def test_a_report_on_shards_made_elsewhere_has_no_corpus(tmp_path):
    results = replace(results_in(tmp_path), corpus={}, tokenizer=None)
    found = Page(page_of(results))
    assert {"corpus", "tokenizer"}.isdisjoint(a["id"] for a in found.all("section"))
    assert "shards made elsewhere" in found.text


def test_an_optional_stage_is_shown_where_it_ran(tmp_path):
    memory = Memory(0, 0, 0, 0, 0, peak=4_750_000_000, allocated=0)
    target = Target("v5e:2x2", "compiled", fits=False, memory=memory, muon_share=0.0214)
    fault = Finding("no_host_ops", "error", "two shapes")
    told = {"passed": False, "label": "estimate, not measured", "effort": "full", "unseen": []}
    told |= {"chips": [], "packages": {}, "step": Step(precision="bfloat16")}
    told |= {"findings": [fault], "targets": [target]}
    results = results_in(tmp_path)
    files = made.write_run(tmp_path, "base")
    for stage, run in (("preflight", "base"), ("preflight_finetune", "base, a fold")):
        files[stage] = str(tmp_path / "results" / "runs" / "base" / f"{stage}.json")
        PreflightVerdict(run=run, **told).write(files[stage])
    found = Page(page_of(replace(results, runs=[read_run("base", {}, files)])))
    order = [a["id"] for a in found.all("section")]
    assert order.index("preflight") == order.index("shards") + 1
    assert "v5e:2x2" in found.text and "4.42 GiB" in found.text and "does not fit" in found.text
    assert "not measured" in found.text and "no_host_ops: two shapes" in found.text
    assert "base, a fold: failed" in found.text
    assert "Muon's update: 2.1 % of the step's FLOPs." in found.text


def test_the_best_run_is_marked_and_differences_are_judged(page, html):
    best = re.search(r'<tr class="best">.*?</tr>', html, re.DOTALL)[0]
    assert "wide" in best and html.count('<tr class="best">') == 1
    assert page.text.count("worse beyond chance") >= 2
    assert "4.920 ± 0.028" in page.text


def test_the_page_says_what_intervals_resample_and_how_many_answers_are_shown(page):
    assert "95 % interval 4.500 to 4.600, by 12 groups (speech)" in page.text
    assert "Intervals resample 12 groups (speech) of the test text." in page.text
    assert re.search(r"Masking leaves 10\.1\s% of the answers in sight of the model", page.text)


@pytest.mark.parametrize(
    ("shared", "tone", "said"),
    [
        (52, "better", "test text that it never saw, it"),
        (3300, "even", "(3.3 % of its words are in"),
        (None, None, "tokens of test text, it"),
    ],
)
def test_how_much_of_the_test_text_train_has_too_is_told_if_measured(tmp_path, shared, tone, said):
    results = results_in(tmp_path)
    overlap = None if shared is None else WordOverlap(100_000, shared, 4)
    test = replace(results.corpus["test"], overlap_with_train=overlap)
    html = page_of(replace(results, corpus=results.corpus | {"test": test}))
    cards = re.findall(r'<div class="card (\w+)"><dt>.{,60}Seen test words', html)
    assert cards == [tone] * (shared is not None)
    assert said in html.replace("\u00a0", " ")


def test_a_model_no_better_than_unigram_is_said_to_be_so(tmp_path):
    verdict = "Not better than the unigram baseline: worse by 0.100 nats per prediction."
    evaluation = made.evaluation("base", 6.80, verdicts=[{"tone": "worse", "text": verdict}])
    html = page_of(results_in(tmp_path, evaluation=evaluation))
    assert f'<li class="worse">{verdict}</li>' in html
    card = re.search(r'<div class="card worse"><dt>.{,60}Beside the unigram.*?</div>', html)[0]
    assert "+0.10" in card and "worse beyond chance" in card


def test_the_numbers_for_machines_hold_what_the_page_shows(three):
    numbers = json.loads(three["report.json"])
    assert numbers["format_version"] == 2
    assert numbers["comparison"]["best"] == "wide"
    assert numbers["runs"]["base"]["evaluation"]["test"]["loss"] == 4.90
    assert len(numbers["runs"]["base"]["curves"]["loss"]) == len(made.curves())
    assert numbers["artefacts"]["results/tokenizer/tokenizer.json"] == made.sha("tokenizer")
    assert "tokens_per_second" not in three["report.json"].decode()


def test_every_artefact_has_its_digest_in_the_page(page):
    names = ["corpus/train.parquet", "tokenizer/tokenizer.json", "manifests/test.json"]
    names += ["shards/train/train-00003-of-00004.tfrecord"]
    names += ["runs/base/model/model.safetensors", "runs/wide/evaluation.json"]
    assert all(f"results/{name}" in page.text for name in names)
    assert made.sha("train3") in page.text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    return written(hostile_results(root), root / "report")["report.html"].decode("utf-8")


def test_hostile_text_makes_no_element(hostile):
    page = Page(hostile)
    assert not page.all("script") and not page.all("img")
    assert len(page.all("style")) == 1
    assert len(page.all("svg")) == len(FIGURES)
    assert not [a for _, a, _ in page.elements if any(k.startswith("on") for k in a)]


def test_hostile_text_is_there_to_be_read_and_control_characters_by_name(hostile):
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", hostile)
    text = Page(hostile).text
    for piece in ("<script>alert(1)</script>", "</style><style>", "{{ 7*7 }}", "W" * 2_000):
        assert piece in text
    assert all(name in text for name in ("U+202E", "U+0000", "U+001B"))


def test_an_empty_evaluation_still_gives_a_page(tmp_path):
    """What a tiny test split leaves out: no figures of a part, no sample, no curve."""
    nothing = {"loss": None, "accuracy": None, "num_predictions": 0}
    bare = made.evaluation(
        "base",
        train=None,
        frequency_bands=[nothing | {"label": "1 to 10", "first_rank": 1, "last_rank": 10}],
        positions=[nothing | {"first": 0, "last": 7}],
        word_initial={"initial": nothing, "continuation": nothing},
        calibration={"expected_calibration_error": 0.0, "bins": []},
        samples={"best": [], "worst": []},
        verdicts=[],
    )
    fill_mask = made.fill_mask("base", [])
    preview = replace(made.preview("base"), samples=[])
    results = results_in(tmp_path, evaluation=bare, fill_mask=fill_mask, preview=preview)
    results = replace(results, runs=[replace(results.runs[0], curves=[])])
    found = Page(page_of(results))
    assert {"preview", "samples", "fill_mask"}.isdisjoint(a["id"] for a in found.all("section"))


def test_the_configuration_in_the_page_is_complete_and_gives_itself(html):
    code = r"<summary>Configuration as resolved.*?<code>(.*?)</code>"
    config = json.loads(unescape(re.search(code, html.replace("<wbr>", ""), re.DOTALL)[1]))
    assert resolve(config) == config
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
    assert "And 29,750 more shards" in html and "and 29,750 more" in html


def test_what_is_known_of_a_source_stands_once_for_all_splits(tmp_path):
    results = results_in(tmp_path)
    files = [SourceFile(f"data/{i}.txt", 1, made.sha(str(i))) for i in range(4)]
    whole = FilesSource("files", "line", tuple(files))
    carved = replace(whole, carved_from="train", share=0.125, seed=7)
    one, other = (replace(whole, files=tuple(some)) for some in (files[:3], files[3:]))
    for train, held_out, times, said in (
        (whole, carved, 1, "validation: share"),
        (one, other, 2, "train: files"),
    ):
        corpora = {
            split: replace(found, source=train if split == "train" else held_out)
            for split, found in results.corpus.items()
        }
        page = page_of(replace(results, corpus=corpora))
        assert "The text is 4 text files of the user." in page
        assert page.count("data/3.txt") == times and said in page


def test_text_near_the_prompts_is_shown_or_why_it_is_not(tmp_path):
    results = results_in(tmp_path)
    assert "hidden there: <b><bdi>report</bdi></b> 1×" in page_of(results)
    assert "word for word · never shown" in page_of(results)
    without = [replace(run, asked=None) for run in results.runs]
    page = page_of(replace(results, corpus={}, tokenizer=None, runs=without))
    assert "came without their text" in page
    large = [replace(r, asked=replace(r.asked, texts=(), too_large=10**9)) for r in results.runs]
    assert "has 1,000 MB of text, which is not searched" in page_of(replace(results, runs=large))
    assert 'id="asked"' not in page_of(replace(results, runs=without))
