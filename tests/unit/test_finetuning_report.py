import re
from dataclasses import replace

import report_artefacts as made
from report_results import drawn_once, results_in

from mlm.finetuning.merged_folds import comparison_table, finetuned_card
from mlm.finetuning.score_comparison import NAMES, Finetuning, verdict_on
from mlm.report.page import numbers_of, render


def measured(score):
    return {"score": score, "interval": [score - 0.01, score + 0.01]}


def metrics(task="regression", also=()):
    classes = {"<b>a": 3, "b": 4} if task == "classification" else None
    models = {
        name: {"folds": [0.5 + i, 0.6 + i], "mean": 0.55 + i, "spread": 0.07}
        | measured(0.5 + i / 10)
        | ({"macro_f1": 0.321} if classes else {})
        for i, name in enumerate(("pretrained", "random", *also, "baseline"))
    }
    data = {"source": "csv" if classes else "embedded", "task": task, "examples": 40, "groups": 4}
    content = {
        **{"run": "base", "task": task, "score": "accuracy" if classes else "rmse"},
        "data": data | {"words": 900, "folds": [20, 20], "classes": classes},
        "models": models,
        "differences": [
            {"model": "pretrained", "beside": name} | measured(-0.1) for name in ("random", *also)
        ],
        **({"also": {name: made.sha(name) for name in also}} if also else {}),
        "learning_rates": {"pretrained": [0.001, 0.001]},
        "settings": {"epochs": 2, "learning_rate": [0.001]},
        "digests": {"examples": made.sha("examples"), "model": made.sha("model")},
        "packages": {"jax": "0.6"},
        "verdicts": [],
    }
    found = made.typed(Finetuning, content)
    verdicts = [verdict_on(one, found.metric, task, 40) for one in found.differences]
    return replace(found, verdicts=verdicts)


def page_with(root, metrics):
    results = results_in(root)
    metrics.write(root / "metrics.json")
    run = replace(results.runs[0], finetune=Finetuning.read(root / "metrics.json"))
    results = replace(results, runs=[run])
    return results, render(results, drawn_once())


def test_the_section_has_every_score_and_published_encoders_are_rows_with_their_digests(tmp_path):
    label = "owner/name@01234567"
    tuned = metrics(also=(label,))
    results, page = page_with(tmp_path, tuned)
    section = page.partition('<section id="finetune"')[2]
    assert all(score in section for score in ("0.500", "0.600", "0.700", "−0.100"))
    assert made.sha(label) in section
    assert "is better than the same network from random weights" in section
    rows = re.compile(r'<th scope="row">base</th><td class="words">(.+?)</td><td>0')
    names = [*NAMES.values(), f"the published encoder {label}"]
    assert rows.findall(section)[:4] == names
    assert f'<td class="words">{names[-1]}</td><td>−0.1' in section
    assert f"is better than {names[-1]}" in section.replace("<wbr>", "")
    run = results.runs[0].name
    assert numbers_of(results)["runs"][run]["finetune"]["models"]["random"]["mean"] == 1.55
    assert f"{names[-1]} | 0.700" in finetuned_card(tuned, "bert")
    first, *others = comparison_table(tuned).splitlines()
    assert first.startswith("base: RMSE, less is better")
    assert [line.split("  ")[0] for line in sorted(others)] == sorted(names)


def test_classes_are_shown_as_text(tmp_path):
    tuned = metrics(task="classification")
    _, page = page_with(tmp_path, tuned)
    assert "<b>a" not in page and "0.321" in page
    assert "`<b>a`, `b`" in finetuned_card(tuned, "bert")
