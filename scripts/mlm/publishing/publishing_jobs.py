"""The files of each repository, and the record of where they went.

`section` is the section `publish`, which names the repository; `source` says where the text comes
from. A file that is not what its maker recorded is an MlmError, and nothing is sent.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from huggingface_hub import CommitOperationAdd

from mlm.config.publish import Publish, licence_of
from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.evaluation.artefacts import METRICS, EvaluationFigures
from mlm.foundations.artefacts import MadeFrom, portable
from mlm.foundations.atomic import canonical_json, read_json
from mlm.foundations.errors import MlmError, remedy
from mlm.foundations.typed_artefacts import as_json
from mlm.model.export import SENTENCE_ENCODER_FILES
from mlm.publishing.artefacts import Destination, PublishRecord, SentFile
from mlm.publishing.tokenizer_and_dataset_cards import dataset_card, tokenizer_card
from mlm.publishing.uploads import publish, sha256_of
from mlm.samples.manifests import Manifest, project_root
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training
from mlm.training.model_card import model_card

#: The figures of evaluation.json that are published: none contains text of the corpus.
_FIGURES = (
    *("format_version", "run", "test", "train", "baselines", "frequency_bands", "calibration"),
    *("verdicts", "group_by", "digests"),
)
_SHARD = re.compile(r"data/(train|validation|test)/[^/]+\.tfrecord")


def publish_tokenizer(
    section: Publish, source: str, directory: Path, stats: str | Path
) -> PublishRecord:
    """Publish the tokenizer in `directory`, whose tokenizer_stats.json is `stats`."""
    statistics = TokenizerStatistics.read(stats)
    tokens = read_json(directory / "special_tokens_map.json")
    card = tokenizer_card(section, source, tokens, statistics)
    files = _checked(_recorded(directory, TOKENIZER_FILES, statistics.made_from.outputs), stats)
    return _publish("tokenizer", section, files, card, "Publish the tokenizer")


def publish_dataset(
    section: Publish, source: str, manifests: Mapping[str, str], tokenizer: Path, stats: str | Path
) -> PublishRecord:
    """Publish the shards of the manifests (paths by split) with the tokenizer in the directory
    `tokenizer`, whose tokenizer_stats.json is `stats`. Shards of an earlier publication that have
    other names are removed."""
    read = {split: Manifest.read(path) for split, path in manifests.items()}
    files = []
    for split, manifest in read.items():
        root = project_root(manifests[split])
        shards = {f"data/{split}/{s.name}": (root / s.path, s.sha256) for s in manifest.shards}
        files += _checked(shards, manifests[split])
    outputs = TokenizerStatistics.read(stats).made_from.outputs
    files += _checked(_recorded(tokenizer, TOKENIZER_FILES, outputs, "tokenizer/"), stats)
    for split, manifest in read.items():
        shards = tuple(replace(s, path=f"data/{split}/{s.name}") for s in manifest.shards)
        published = replace(manifest, shards=shards, made_from=MadeFrom())
        content = canonical_json(as_json(published)).encode()
        files.append(CommitOperationAdd(f"manifests/{split}.json", content))
    card = dataset_card(section, source, read)
    return _publish("dataset", section, files, card, "Publish the shards", _SHARD)


def publish_model(
    section: Publish,
    source: str,
    directory: Path,
    training: str | Path,
    evaluation: str | Path,
    prompt: str | None,
) -> PublishRecord:
    """Publish the model in `directory` with its training.json and evaluation.json; `prompt` is the
    card's example, if it has one."""
    trained, evaluated = Training.read(training), EvaluationFigures.read(evaluation)
    hidden, overall = (
        {key: (m.card, getattr(figures, key)) for key, m in METRICS.items() if m.card}
        for figures in (evaluated.test.hidden, evaluated.test)
    )
    base = trained.warm_start
    start = (base.checkpoint, base.licence) if base else (None, None)
    card = model_card(
        trained,
        corpus=source,
        test=hidden,
        in_papers=(evaluated.masked_as, overall) if evaluated.masked_as else None,
        license=licence_of(section.license, trained.run, *start),
        language=section.language,
        prompt=prompt,
        place=section.model,
    )
    names = ("model.safetensors", "config.json", *TOKENIZER_FILES, *SENTENCE_ENCODER_FILES)
    figures = {key: part for key, part in as_json(evaluated).items() if key in _FIGURES}
    files = [
        *_checked(_recorded(directory, names, trained.made_from.outputs), training),
        CommitOperationAdd("training.json", Path(training)),
        CommitOperationAdd("evaluation.json", canonical_json(figures).encode()),
    ]
    record = _publish("model", section, files, card, f"Publish the model of run {trained.run}")
    return replace(record, run=trained.run)


def _recorded(
    directory: Path, names: Iterable[str], outputs: Mapping[str, str], prefix: str = ""
) -> dict[str, tuple[Path, str | None]]:
    """Paths in the repository, with the files in `directory` and their digests in `outputs`."""
    return {prefix + n: (directory / n, outputs.get(portable(directory / n))) for n in names}


def _checked(
    files: Mapping[str, tuple[Path, str | None]], maker: str | Path
) -> list[CommitOperationAdd]:
    """The files by their paths in the repository. MlmError for those whose sha256 is not the one
    that `maker` recorded."""
    listed, problems = [], {}
    for name, (path, expected) in files.items():
        listed.append(CommitOperationAdd(name, path))
        digest = sha256_of(listed[-1])
        if digest != expected:
            record = f"{expected[:12]}… is recorded" if expected else "none is recorded"
            problems[path] = f"{path} (sha256 {digest[:12]}…; {record})"
    if problems:
        raise MlmError(
            f"Not what was made, by {maker}: {', '.join(problems.values())}. Nothing was sent. "
            f"{remedy(*problems)}"
        )
    return listed


def _publish(
    what: str,
    section: Publish,
    files: list[CommitOperationAdd],
    card: str,
    title: str,
    stale: re.Pattern | None = None,
) -> PublishRecord:
    """Upload the files and then the card; the record of what went where."""
    files = [*files, CommitOperationAdd("README.md", card.encode())]
    kind = "dataset" if what == "dataset" else "model"
    destination = Destination(getattr(section, what), kind, section.private)
    commit = publish(destination, files, title, stale)
    sent = [SentFile(f.path_in_repo, f.upload_info.size, sha256_of(f)) for f in files]
    return PublishRecord(what, destination, commit, sorted(sent, key=lambda file: file.path))
