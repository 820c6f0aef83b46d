"""The report in words: numbers as a reader writes them, and sentences about the results."""

import math
from collections.abc import Sequence
from dataclasses import replace

from mlm.corpus.artefacts import CorpusSource, FilesSource
from mlm.evaluation.artefacts import EvaluationFigures
from mlm.report.report_inputs import Results, RunResults

#: Items of a list, or shards of a split, that the page shows; report.json has all.
MOST_SHOWN = 250
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


def _scaled(number: float, units: tuple[str, str, str], form: str) -> str | None:
    """`number` in the largest of the units of 10^9, 10^6 and 10^3 that it fills."""
    for unit, factor in zip(units, (1e9, 1e6, 1e3), strict=True):
        if number >= factor:
            return f"{number / factor:{form}}\u00a0{unit}"
    return None


def size(number: float | None) -> str:
    """A number of bytes in B, kB, MB or GB (powers of 1000)."""
    if number is None:
        return NONE
    return _scaled(number, ("GB", "MB", "kB"), ",.1f") or f"{number:,.0f} B"


def short(number: float | None) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    if number is None:
        return NONE
    return _scaled(number, ("B", "M", "k"), ".3g") or f"{number:,.0f}"


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
        shown = [value(x) for x in setting[:MOST_SHOWN]]
        if len(setting) > MOST_SHOWN:
            shown.append(f"and {len(setting) - MOST_SHOWN:,} more")
        return ", ".join(shown) or "none"
    return str(setting)


def whole_source(results: Results) -> CorpusSource:
    """One source for all splits: with the files of each, and every file once."""
    sources = [split.source for split in results.corpus.values()]
    if not isinstance(sources[0], FilesSource):
        return sources[0]
    files = {file.sha256: file for source in sources for file in source.files}
    return replace(sources[0], files=tuple(files.values()))


def what_was_trained(results: Results, best: RunResults) -> list[str]:
    """Two or three sentences: the model, the text, the training, the outcome."""
    training, test = best.training, best.evaluation.test
    tokens = f"{short(results.manifests['train'].num_tokens)} tokens"
    text = str(whole_source(results)) if results.corpus else "shards made elsewhere"
    length = f"{count(training.steps)} steps ({training.epochs:.3g} epochs)"
    several = len(results.runs) > 1
    article = "an" if training.model_type[:1] in "aeiou" else "a"
    begun = training.initialisation
    start = "from random weights"
    if begun["embeddings"] == "cooccurrence":
        start = "from scratch, with embeddings that begin at counts of its own training text"
    elif begun["attention"] != "standard":
        start = "from scratch, with attention that begins at the neighbouring tokens"
    first = (
        f"Trained {start}: {article} {training.model_type} masked language model "
        f"of {short(training.parameters)} parameters, on {tokens} of {text}, for {length}."
    )
    subject = f"Of {len(results.runs)} runs, the best is {best.name}: on" if several else "On"
    second = (
        f"{subject} {count(test.num_predictions)} masked tokens of test text"
        f"{_seen(results)}, it puts the right token first {percent(test.accuracy)} of the time, "
        f"at a loss of {decimal(test.loss, 2)} nats per token."
    )
    return [first, second]


def _seen(results: Results) -> str:
    """How much of the test text train has too; nothing if it was not measured."""
    overlap = results.corpus["test"].overlap_with_train if results.corpus else None
    if overlap is None:
        return ""
    if overlap.share < 0.001:
        return " that it never saw"
    return f" ({percent(overlap.share)} of its words are in runs of 13 that train has too)"


def groups_in_words(evaluation: EvaluationFigures) -> str:
    """What the intervals of an evaluation resample, such as "12 groups (address)"."""
    if evaluation.group_by is None or evaluation.test.num_groups == 1:
        return plural(evaluation.test.num_samples, "sample")
    return f"{plural(evaluation.test.num_groups, 'group')} ({evaluation.group_by})"


def how_it_was_measured(evaluation: EvaluationFigures) -> list[str]:
    """What intervals resample, and how many answers the model was shown."""
    sentences = [f"Intervals resample {groups_in_words(evaluation)} of the test text."]
    predictions, hidden = evaluation.test.num_predictions, evaluation.test.hidden.num_predictions
    if hidden < predictions:
        sentences.append(
            f"Masking leaves {percent(1 - hidden / predictions)} of the answers in "
            "sight of the model, and none in sight of the baselines; “where hidden” leaves these "
            "predictions out on both sides, and so do the bits a character."
        )
    return sentences


#: Settings shown for each run: field of training.json and heading.
_SETTINGS = {
    "model_type": "Architecture",
    "parameters": "Parameters",
    "attend": "Attention within",
    "head": "Head",
    "engine": "Engine",
    "strategy": "Strategy",
    "replicas": "Replicas",
    "processes": "Processes",
    "precision": "Precision",
    "global_batch_size": "Samples in a step",
    "sequence_length": "Tokens in a sample",
    "steps": "Steps",
    "epochs": "Epochs",
    "tokens": "Tokens seen",
    "slots": "Prediction slots",
}
#: Settings with an entry of their own in the glossary.
_TERMS = {"Parameters": "parameters", "Steps": "steps", "Tokens seen": "tokens"}


def settings_rows(runs: Sequence[RunResults]) -> list[dict]:
    """Rows of the table of settings: a heading, a value by run, and whether all are alike."""
    rows = [(heading, [getattr(r.training, f) for r in runs]) for f, heading in _SETTINGS.items()]
    for group in ("initialisation", "masking", "optimizer"):
        tables = [getattr(run.training, group) for run in runs]
        for key in sorted(tables[0]):
            heading = f"{group.capitalize()}: {key.replace('_', ' ')}"
            rows.append((heading, [table[key] for table in tables]))
    return [
        {
            "heading": heading,
            "term": _TERMS.get(heading, "setting"),
            "values": [value(v) for v in values],
            "alike": len({value(v) for v in values}) == 1,
        }
        for heading, values in rows
        if any(v is not None for v in values)
    ]


def digest_rows(results: Results, most: int | None = None) -> list[tuple[str, str]]:
    """Name and sha256 of every artefact: those read here, and those that they vouch for.

    Of each split's shards the first `most` (None: all).
    """
    rows: dict[str, str] = {}
    for split, manifest in results.manifests.items():
        if split in results.corpus:
            for file in results.corpus[split].files[:most]:
                rows[f"results/corpus/{file.name}"] = file.sha256
        if manifest.tokenizer_sha256:
            rows["results/tokenizer/tokenizer.json"] = manifest.tokenizer_sha256
    rows |= results.digests
    for manifest in results.manifests.values():
        rows |= {shard.path: shard.sha256 for shard in manifest.shards[:most]}
    for run in results.runs:
        weights = f"results/runs/{run.name}/model/model.safetensors"
        rows |= {weights: run.training.digests.model} | run.digests
    return list(rows.items())
