"""Publishing as jobs: what goes into each repository, and the record of where it went.

`publish` is the section of the configuration, of which `tokenizer`, `dataset` or `model` names the
job's repository; `source` says where the text comes from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from mlm.config.publish import Publish
from mlm.evaluation.artefacts import EvaluationFigures
from mlm.foundations.artefacts import MadeFrom, portable
from mlm.foundations.atomic import canonical_json, read_json
from mlm.foundations.errors import MlmError, remedy
from mlm.foundations.typed_artefacts import as_json
from mlm.model.export import SENTENCE_ENCODER_FILES
from mlm.publishing.artefacts import (
    Destination,
    PublishRecord,
    PushedCheckpoint,
    PushedCheckpoints,
    SentFile,
)
from mlm.publishing.cards import dataset_card, tokenizer_card
from mlm.publishing.uploads import PublishedFile, Upload, commits_of, publish
from mlm.samples.manifests import Manifest, shards_root
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES
from mlm.training.artefacts import Training
from mlm.training.model_card import model_card

#: Of evaluation.json what holds no text of the corpus.
_FIGURES = (
    *("format_version", "run", "test", "train", "baselines", "frequency_bands", "positions"),
    *("word_initial", "calibration", "verdicts", "group_by", "digests"),
)
_SHARD = re.compile(r"data/(train|validation|test)/[^/]+\.tfrecord")
_STEP = re.compile(r"Step (\d+)")


def publish_tokenizer(
    section: Publish,
    source: str,
    directory: Path,
    stats: str | Path,
    of_corpus: bool,
    record: str | Path,
) -> None:
    """Publish the tokenizer in `directory`; write the record.

    `stats` is the path of tokenizer_stats.json; with `of_corpus`, the card has its figures.
    Raises MlmError for a file that is not what was recorded there.
    """
    made = TokenizerStatistics.read(stats)
    tokens = read_json(directory / "special_tokens_map.json")
    tokens = {name: text for name, text in tokens.items() if isinstance(text, str)}
    card = tokenizer_card(section, source, tokens, made if of_corpus else None)
    files = _recorded_files(directory, TOKENIZER_FILES, made.made_from.outputs, stats)
    destination = Destination(section.tokenizer, "model", section.private)
    upload = _upload(section, files, card, "Publish the tokenizer")
    _publish("tokenizer", destination, upload, record)


def publish_dataset(
    section: Publish,
    source: str,
    manifests: Mapping[str, str],
    tokenizer: Path,
    stats: str | Path,
    record: str | Path,
) -> None:
    """Publish the shards that the manifests (paths by split) name; write the record.

    `tokenizer` is the directory of the tokenizer that made them, `stats` the path of its
    tokenizer_stats.json. Shards that an earlier publication left there under other names are
    removed. Raises MlmError for a shard that is not what its manifest says, and a file of the
    tokenizer that is not what was recorded.
    """
    found = {split: Manifest.read(path) for split, path in manifests.items()}
    files = []
    for split, manifest in found.items():
        root = shards_root(manifest, manifests[split])
        for shard in manifest.shards:
            file = PublishedFile.of(f"data/{split}/{shard.name}", root / shard.path)
            _require({file.content: (file.sha256, shard.sha256)}, manifests[split])
            files.append(file)
    recorded = TokenizerStatistics.read(stats).made_from.outputs
    beside = _recorded_files(tokenizer, TOKENIZER_FILES, recorded, stats)
    files += [file._replace(path=f"tokenizer/{file.path}") for file in beside]
    for split, manifest in found.items():
        shards = tuple(replace(s, path=f"data/{split}/{s.name}") for s in manifest.shards)
        published = replace(manifest, shards=shards, made_from=MadeFrom())
        content = canonical_json(as_json(published)).encode()
        files.append(PublishedFile.of(f"manifests/{split}.json", content))
    upload = _upload(section, files, dataset_card(section, source, found), "Publish the shards")
    destination = Destination(section.dataset, "dataset", section.private)
    _publish("dataset", destination, replace(upload, stale=_SHARD), record)


def publish_model(
    section: Publish,
    source: str,
    directory: Path,
    results: tuple[str | Path, str | Path],
    prompt: str | None,
    record: str | Path,
) -> None:
    """Publish the model in `directory` with its card and figures; write the record.

    `results` are the paths of training.json and evaluation.json, and `prompt` is the card's
    example, if it has one. If checkpoints were pushed during the training, the record names their
    commits. Raises MlmError for a file of the model that is not what training.json recorded.
    """
    training, evaluation = Training.read(results[0]), EvaluationFigures.read(results[1])
    card = model_card(
        training,
        corpus=source,
        test=asdict(evaluation.test),
        license=section.license,
        language=section.language,
        prompt=prompt,
        place=section.model,
    )
    names = ("model.safetensors", "config.json", *TOKENIZER_FILES, *SENTENCE_ENCODER_FILES)
    figures = {key: part for key, part in as_json(evaluation).items() if key in _FIGURES}
    files = [
        *_recorded_files(directory, names, training.made_from.outputs, results[0]),
        PublishedFile.of("training.json", Path(results[0])),
        PublishedFile.of("evaluation.json", canonical_json(figures).encode()),
    ]
    destination = Destination(section.model, "model", section.private)
    about = {"run": training.run}
    if section.checkpoints.every:
        branch = section.checkpoints.branch
        about["checkpoints"] = _checkpoints(replace(destination, branch=branch))
    upload = _upload(section, files, card, f"Publish the model of run {training.run}")
    _publish("model", destination, upload, record, **about)


def _recorded_files(
    directory: Path, names: Iterable[str], recorded: Mapping[str, str], maker: str | Path
) -> list[PublishedFile]:
    """The files, which are what their job recorded in the artefact `maker`.

    The job's inputs were checked when it began; this is the digest of what will be sent.
    """
    files = [PublishedFile.of(name, directory / name) for name in names]
    expected = {f.content: (f.sha256, recorded.get(portable(f.content))) for f in files}
    _require(expected, maker)
    return files


def _require(digests: Mapping[Path, tuple[str, str | None]], maker: str | Path) -> None:
    """Raise MlmError for files whose sha256 is not the one that `maker` recorded."""
    problems = {}
    for path, (found, expected) in digests.items():
        if found != expected:
            said = f"{expected[:12]}… is recorded" if expected else "none is recorded"
            problems[path] = f"{path} (sha256 {found[:12]}…; {said})"
    if problems:
        raise MlmError(
            f"Not what was made, by {maker}: {', '.join(problems.values())}. Nothing was sent. "
            f"{remedy(*problems)}"
        )


def _upload(section: Publish, files: Sequence[PublishedFile], card: str, title: str) -> Upload:
    """The files and then the card."""
    return Upload([*files, PublishedFile.of("README.md", card.encode())], title, section.attempts)


def _publish(
    what: str, destination: Destination, upload: Upload, record: str | Path, **about
) -> None:
    """Upload, and write what went where to `record`."""
    commit = publish(destination, upload)
    sent = sorted(upload.files, key=lambda file: file.path)
    PublishRecord(
        what=what,
        destination=destination,
        commit=commit,
        files=[SentFile(file.path, file.num_bytes, file.sha256) for file in sent],
        **about,
    ).write(record)


def _checkpoints(destination: Destination) -> PushedCheckpoints:
    """The branch's pushes, in the order of their steps: the newest commit of each."""
    newest: dict[int, str] = {}
    for commit, title in commits_of(destination):
        if match := _STEP.fullmatch(title):
            newest.setdefault(int(match[1]), commit)
    pushed = [PushedCheckpoint(step, newest[step]) for step in sorted(newest)]
    return PushedCheckpoints(destination.branch, pushed)
