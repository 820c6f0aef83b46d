import re
from dataclasses import replace

import report_artefacts as made
from report_results import results_in

from mlm.finetuning.finetuning_metrics import NAMES, Finetuning
from mlm.finetuning.results import finetuned_card, finetuning_verdicts
from mlm.finetuning.scores import METRICS
from mlm.report.page import numbers_of, render
from mlm.report.plots import figures


def measured(score):
    return {"score": score, "interval": [score - 0.01, score + 0.01]}


def metrics(task="regression", parts=("all", "unseen", "seen"), also=()):
    trained, classes = ("pretrained", "random", *also), task == "classification"
    of_training = {"seeds": [0.5, 0.5]}
    models = {
        name: {"folds": [0.5 + i, 0.6 + i], "mean": 0.55 + i, "spread": 0.07}
        | {part: measured(0.5 + i / 10) for part in parts}
        | (of_training if name in trained else {})
        | ({"macro_f1": 0.321} if classes else {})
        for i, name in enumerate((*trained, "baseline"))
    }
    shown = {"true": [0.0, 1.0], "predicted": [0.1, 0.9]}
    if classes:
        shown = {"classes": ["<b>a", "b"], "counts": [[3, 1], [0, 4]]}
    sizes = {"examples": 40, "groups": 4}
    source = {"kind": "csv" if classes else "embedded"}
    data = sizes | {"source": source, "task": task, "words": 900, "folds": [20, 20]}
    content = {
        **{"run": "base", "task": task, "score": "accuracy" if classes else "rmse"},
        "confidence": 0.95,
        "data": data | {"splits": {"train": 30, "test": 10}},
        "parts": dict.fromkeys(parts, sizes),
        "models": models,
        "differences": [
            {"model": "pretrained", "beside": name, **{p: measured(-0.1) for p in parts}}
            for name in ("random", *also)
        ],
        **({"also": {name: made.sha(name) for name in also}} if also else {}),
        "learning_rates": {"pretrained": [0.001, 0.001]},
        "shown": shown,
        "settings": {"epochs": 2, "seeds": 2, "learning_rate": [0.001]},
        "baseline": [{"fold": 0, "terms": "words", "penalty": 0.03, "error": 0.4}],
        "digests": {"examples": made.sha("examples"), "model": made.sha("model")},
        "packages": {"jax": "0.6"},
        "verdicts": [],
    }
    found = made.typed(Finetuning, content)
    judged = (METRICS[task], task, found.parts, found.differences)
    return replace(found, verdicts=finetuning_verdicts(*judged))


def page_with(root, metrics):
    results = results_in(root)
    metrics.write(root / "metrics.json")
    run = replace(results.runs[0], finetune=Finetuning.read(root / "metrics.json"))
    results = replace(results, runs=[run])
    drawn = figures(results)
    return results, drawn["finetuning_predictions"], render(results, drawn)


def test_the_section_has_every_score_and_published_encoders_are_rows_with_their_digests(tmp_path):
    label = "owner/name@01234567"
    tuned = metrics(also=(label,))
    results, svg, page = page_with(tmp_path, tuned)
    section = page.partition('<section id="finetune"')[2]
    assert all(score in section for score in ("0.500", "0.600", "0.700", "−0.100"))
    assert "words, penalty 0.03" in section and made.sha(label) in section
    assert "is better than the same network from random weights" in section
    assert "correlation 1.00" in svg
    rows = re.compile(r'<th scope="row">base</th><td class="words">(.+?)</td><td>0')
    names = [*NAMES.values(), f"the published encoder {label}"]
    assert rows.findall(section)[:4] == names
    assert f'<td class="words">{names[-1]}</td><td>−0.1' in section
    assert f"is better than {names[-1]} on all" in section.replace("<wbr>", "")
    run = results.runs[0].name
    assert numbers_of(results)["runs"][run]["finetune"]["models"]["random"]["mean"] == 1.55
    assert f"{names[-1]} | 0.700" in finetuned_card(tuned, "bert")


def test_classes_are_shown_as_text_and_one_without_passages_has_no_figure(tmp_path):
    classes = metrics(task="classification")
    none = replace(classes.shown, counts=[[3, 1], [0, 0]])
    _, svg, page = page_with(tmp_path, replace(classes, shown=none))
    assert "<b>a" not in page and "0.321" in page
    assert "75 % right" in svg and "b none held out" in svg


def test_values_that_do_not_vary_have_no_correlation(tmp_path):
    values = metrics()
    same = replace(values.shown, true=[0.5, 0.5], predicted=[0.1, 0.9])
    assert "no correlation" in page_with(tmp_path, replace(values, shown=same))[1]
