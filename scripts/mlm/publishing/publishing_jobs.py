"""Publishing as jobs: what goes into each repository, and the record of where it went."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mlm.evaluation.artefacts import EvaluationFigures
from mlm.foundations.artefacts import MadeFrom, portable
from mlm.foundations.atomic import canonical_json, read_json
from mlm.foundations.errors import MlmError, remedy
from mlm.foundations.progress_line import Progress
from mlm.foundations.typed_artefacts import as_json
from mlm.model.export import SENTENCE_ENCODER_FILES
from mlm.publishing.artefacts import PublishRecord, PushedCheckpoint, PushedCheckpoints, SentFile
from mlm.publishing.cards import CardSettings, dataset_card, tokenizer_card
from mlm.publishing.destination import Destination
from mlm.publishing.repository import PublishedFile
from mlm.publishing.transfer import Upload, connected, publish
from mlm.samples.manifests import Manifest, ShardEntry, shards_root
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.tokenizer.tokenizer_files import TOKENIZER_FILES
from mlm.training.artefacts import Training
from mlm.training.model_card import model_card

CARD = "README.md"
#: Of evaluation.json what holds no text of the corpus.
_FIGURES = (
    "format_version",
    "run",
    "test",
    "train",
    "baselines",
    "frequency_bands",
    "positions",
    "word_initial",
    "calibration",
    "verdicts",
    "group_by",
    "digests",
)
_SHARD = re.compile(r"data/(train|validation|test)/[^/]+\.tfrecord")
_STEP = re.compile(r"Step (\d+)")


@dataclass(frozen=True)
class PublishSettings:
    """Where something goes, what its card says, and how often a failure is tried again."""

    destination: Destination
    card: CardSettings
    attempts: int


def publish_settings(to: dict, card: dict, attempts: int) -> PublishSettings:
    """From a rule's params: a destination's fields, and what CardSettings.of takes."""
    return PublishSettings(Destination(**to), CardSettings.of(card), attempts)


def publish_tokenizer(
    settings: PublishSettings,
    directory: str | Path,
    stats: str | Path,
    of_corpus: bool,
    record: str,
) -> None:
    """Publish the tokenizer in `directory`; write the record.

    `stats` is the path of tokenizer_stats.json; with `of_corpus`, the card has its figures.
    Raises MlmError for a file that is not what was recorded there.
    """
    made = TokenizerStatistics.read(stats)
    directory, repository = Path(directory), settings.destination.repository
    tokens = read_json(directory / "special_tokens_map.json")
    tokens = {name: text for name, text in tokens.items() if isinstance(text, str)}
    card = tokenizer_card(repository, tokens, made if of_corpus else None, settings.card)
    files = [PublishedFile.of(name, directory / name) for name in TOKENIZER_FILES]
    _check_recorded(files, made.made_from.outputs, stats)
    _publish(settings, files, card, "Publish the tokenizer", record, {"what": "tokenizer"})


def publish_dataset(
    settings: PublishSettings,
    manifests: dict[str, str],
    tokenizer: str | Path,
    stats: str | Path,
    record: str,
) -> None:
    """Publish the shards that the manifests (paths by split) name; write the record.

    `tokenizer` is the directory of the tokenizer that made them, `stats` the path of its
    tokenizer_stats.json. Shards that an earlier publication left there under other names are
    removed. Raises MlmError for a shard that is not what its manifest says, and a file of the
    tokenizer that is not what was recorded.
    """
    found = {split: Manifest.read(path) for split, path in manifests.items()}
    size = sum(shard.num_bytes for manifest in found.values() for shard in manifest.shards)
    files, progress = [], Progress("checking the shards", size, "bytes")
    for split, manifest in found.items():
        for shard in manifest.shards:
            root = shards_root(manifest, manifests[split])
            files.append(_checked(shard, split, root))
            progress.to(sum(file.size for file in files))
    beside = [
        PublishedFile.of(f"tokenizer/{name}", Path(tokenizer) / name) for name in TOKENIZER_FILES
    ]
    _check_recorded(beside, TokenizerStatistics.read(stats).made_from.outputs, stats)
    files += beside
    for split, manifest in found.items():
        shards = tuple(replace(s, path=_path_of(split, s.name)) for s in manifest.shards)
        published = replace(manifest, shards=shards, made_from=MadeFrom())
        content = canonical_json(as_json(published)).encode()
        files.append(PublishedFile.of(f"manifests/{split}.json", content))
    card = dataset_card(settings.destination.repository, found, settings.card)
    _publish(settings, files, card, "Publish the shards", record, {"what": "dataset"}, stale=_SHARD)


def publish_model(
    settings: PublishSettings,
    directory: str | Path,
    results: dict[str, str],
    prompt: str | None,
    branch: str | None,
    record: str,
) -> None:
    """Publish the model in `directory` with its card and figures; write the record.

    `results` are the paths of training.json and evaluation.json by `training` and
    `evaluation`, `prompt` the card's example, if it has one, and `branch` that of checkpoints
    which were pushed during the training, whose commits the record then names. Raises MlmError
    for a file of the model that is not what training.json recorded.
    """
    directory = Path(directory)
    training = Training.read(results["training"])
    evaluation = EvaluationFigures.read(results["evaluation"])
    card = model_card(
        training,
        corpus=settings.card.corpus,
        test=asdict(evaluation.test),
        license=settings.card.license,
        language=settings.card.language,
        prompt=prompt,
        place=settings.destination.repository,
    )
    names = ("model.safetensors", "config.json", *TOKENIZER_FILES, *SENTENCE_ENCODER_FILES)
    figures = {key: part for key, part in as_json(evaluation).items() if key in _FIGURES}
    files = [PublishedFile.of(name, directory / name) for name in names]
    _check_recorded(files, training.made_from.outputs, results["training"])
    files += [
        PublishedFile.of("training.json", Path(results["training"])),
        PublishedFile.of("evaluation.json", canonical_json(figures).encode()),
    ]
    about = {"what": "model", "run": training.run}
    if branch is not None:
        about["checkpoints"] = _checkpoints(replace(settings.destination, branch=branch))
    _publish(settings, files, card, f"Publish the model of run {training.run}", record, about)


def _check_recorded(
    files: Sequence[PublishedFile], recorded: Mapping[str, str], maker: str | Path
) -> None:
    """Raise MlmError for a file that is not what its job recorded in the artefact `maker`.

    The job's inputs were looked over when it began; this is the digest of what will be sent.
    """
    problems = {}
    for file in files:
        expected = recorded.get(portable(file.content))
        if expected != file.sha256:
            told = f"{expected[:12]}… is recorded" if expected else "none is recorded"
            problems[file.content] = f"{file.content} (sha256 {file.sha256[:12]}…; {told})"
    if problems:
        raise MlmError(
            f"Not what was made, by {maker}: {', '.join(problems.values())}. Nothing was sent. "
            f"{remedy(*problems)}"
        )


def _publish(
    settings: PublishSettings,
    files: Sequence[PublishedFile],
    card: str,
    title: str,
    record: str,
    about: dict,
    stale: re.Pattern | None = None,
) -> None:
    """Upload `files` and then the card, and write what went where to `record`."""
    files = (*files, PublishedFile.of(CARD, card.encode()))
    done = publish(settings.destination, Upload(files, title, settings.attempts, stale))
    sent = sorted(files, key=lambda f: f.path)
    PublishRecord(
        destination=settings.destination,
        commit=done.commit,
        files=[SentFile(f.path, f.size, f.sha256) for f in sent],
        **about,
    ).write(record)


def _checked(shard: ShardEntry, split: str, root: Path) -> PublishedFile:
    """The shard as it will be published. Raises MlmError where it is not its manifest's."""
    file = PublishedFile.of(_path_of(split, shard.name), root / shard.path)
    if file.sha256 != shard.sha256:
        raise MlmError(
            f"{shard.path}: its content changed since the manifest was written (sha256 "
            f"{file.sha256[:12]}…, expected {shard.sha256[:12]}…). Nothing was sent. "
            f"{remedy(file.content)}"
        )
    return file


def _path_of(split: str, name: str) -> str:
    return f"data/{split}/{name}"


def _checkpoints(destination: Destination) -> PushedCheckpoints:
    """The branch's pushes, in the order of their steps: the newest commit of each."""
    with connected(destination) as connection:
        commits = connection.repository().commits()
    newest: dict[int, str] = {}
    for commit, title in commits:
        if match := _STEP.fullmatch(title):
            newest.setdefault(int(match[1]), commit)
    pushed = [PushedCheckpoint(step, newest[step]) for step in sorted(newest)]
    return PushedCheckpoints(destination.branch, pushed)
