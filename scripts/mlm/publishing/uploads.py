"""The files of each repository of the Hugging Face Hub, their card, their upload, and its record.

`section` is the section `publish`, which names the repository; `source` is the origin of the text.
A file that is not what its maker recorded is an MlmError, and nothing is sent.
"""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from huggingface_hub import HfApi, ModelCardData
from huggingface_hub.utils import disable_progress_bars, logging

from mlm.config.corpus import Corpus
from mlm.config.publish import Publish, licence_of
from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.corpus.artefacts import HubSource
from mlm.evaluation.artefacts import METRICS, EvaluationFigures
from mlm.foundations.artefacts import OPTIONAL, Artefact, MadeFrom, as_json, portable
from mlm.foundations.atomic import canonical_json, read_json, write_text
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, remedy
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training
from mlm.training.model_card import SOURCES, card, card_table, model_card

#: The figures of evaluation.json that are published: none contains text of the corpus.
_FIGURES = (
    *("format_version", "run", "test", "train", "baselines", "frequency_bands", "verdicts"),
    *("group_by", "digests"),
)
#: A user and password before an address, and what follows its ?, where upload links are signed.
_SECRETS = re.compile(r"(?<=//)[^/\s@]+@|(?<=\w)\?[^\s'\"<>]+")
#: The remedy by the status of the Hub's answer.
_REMEDIES = {
    401: "The token in HF_TOKEN is mistyped, expired or revoked: make one with write permission. ",
    402: "Free some space there, or ask for more. ",
    403: "Name a repository of your own in publish, set HF_TOKEN to a token that may write there, "
    "or free some space. ",
    429: "Wait for a while. ",
    None: "Check the network and HF_ENDPOINT. ",
}


#: Files to send, or their texts, by their paths in the repository.
Files = dict[str, Path | str]


@dataclass(frozen=True)
class Destination:
    """A repository `owner/name`, of models in the Hub's words."""

    repository: str
    private: bool


@dataclass(frozen=True)
class SentFile:
    """A file in the repository."""

    path: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class PublishRecord(Artefact):
    """A publication, without clock, address of the Hub, or anything secret; `run` for a model."""

    what: str
    destination: Destination
    commit: str
    files: list[SentFile]
    run: str | None = field(default=None, metadata=OPTIONAL)


def publish_tokenizer(
    section: Publish, source: str, directory: Path, stats: str | Path
) -> PublishRecord:
    """Publish the tokenizer in `directory`, whose tokenizer_stats.json is `stats`."""
    tokens, statistics = read_json(directory / TOKENIZER_FILES[2]), TokenizerStatistics.read(stats)
    card = tokenizer_card(section, source, tokens, statistics)
    files = _checked(directory, TOKENIZER_FILES, statistics.made_from, stats)
    return _publish("tokenizer", section, files, card, "Publish the tokenizer")


def publish_model(
    section: Publish,
    source: str,
    directory: Path,
    training: str | Path,
    evaluation: str | Path,
    prompt: str | None,
) -> PublishRecord:
    """Publish the model in `directory` with its records; `prompt` is the card's example."""
    trained, evaluated = Training.read(training), EvaluationFigures.read(evaluation)
    test, in_papers = (
        {key: (m.card, getattr(figures, key)) for key, m in METRICS.items() if m.card}
        for figures in (evaluated.test, evaluated.as_in_papers)
    )
    base = trained.warm_start
    start = (base.checkpoint, base.licence) if base else (None, None)
    card = model_card(
        trained,
        corpus=source,
        test=test,
        in_papers=in_papers,
        license=licence_of(section.license, trained.run, *start),
        language=section.language,
        prompt=prompt,
        place=str(section.model),
    )
    names = ("model.safetensors", "config.json", *TOKENIZER_FILES)
    figures = {key: part for key, part in as_json(evaluated).items() if key in _FIGURES}
    files = _checked(directory, names, trained.made_from, training)
    files |= {"training.json": Path(training), "evaluation.json": canonical_json(figures)}
    record = _publish("model", section, files, card, f"Publish the model of run {trained.run}")
    return replace(record, run=trained.run)


def _checked(
    directory: Path, names: Iterable[str], made_from: MadeFrom, maker: str | Path
) -> Files:
    """Return the files `names` in `directory` by name. MlmError unless `maker` recorded them."""
    paths = [directory / name for name in names]
    recorded = made_from.outputs
    if problems := [path for path in paths if file_sha256(path) != recorded.get(portable(path))]:
        raise MlmError(
            f"Not what was made, by {maker}: {', '.join(map(str, problems))}. Nothing was sent. "
            f"{remedy(*problems)}"
        )
    return {path.name: path for path in paths}


def _publish(what: str, section: Publish, files: Files, card: str, title: str) -> PublishRecord:
    """Upload the files and the card; return the record of what went where."""
    destination = Destination(getattr(section, what), section.private)
    return PublishRecord(
        what, destination, *publish(destination, {**files, "README.md": card}, title)
    )


def token_from_environment() -> str:
    """Return the token in HF_TOKEN. Raises MlmError if there is none or it cannot be one."""
    token = os.environ.get("HF_TOKEN", "").strip()
    # The libraries would show such a value in their error.
    if not (token.isascii() and token.isprintable()) or not token or " " in token:
        raise MlmError(
            "Publishing needs a token of the Hugging Face Hub in the environment variable "
            "HF_TOKEN, and there is none, or it has blanks or other characters that no token has. "
            "Make one with write permission (huggingface.co/settings/tokens), export it, and run "
            "the same command again"
        )
    return token


def scrubbed(text: str, token: str) -> str:
    """Return `text` without the token and what else in an address gives access."""
    return _SECRETS.sub("…", text.replace(token, "…"))


def publish(destination: Destination, files: Files, title: str) -> tuple[str, list[SentFile]]:
    """Upload `files` to a repository that is made if it is missing, and return the last commit and
    what is in it. huggingface_hub repeats requests that fail in passing, and sends nothing that is
    there, so that a rerun resumes. MlmError, without secrets, if the token or the destination is
    unfit, or the Hub or the network fails."""
    token = token_from_environment()
    # The client's warnings show signed links.
    logging.set_verbosity_error()
    disable_progress_bars()
    try:
        return _published(HfApi(token=token), destination, files, title)
    except MlmError:
        raise
    except Exception as error:
        print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
        # The client wraps what an upload raised, and httpx what the system refused.
        cause: BaseException = error
        while getattr(cause, "response", None) is None and (cause.__cause__ or cause.__context__):
            cause = cause.__cause__ or cause.__context__ or cause
        status = getattr(getattr(cause, "response", None), "status_code", None)
        words = f"{type(cause).__name__}: {' '.join(str(cause).split())[:500].rstrip('.')}"
        raise MlmError(
            f"Publishing to {destination.repository} failed: {scrubbed(words, token)}. "
            f"{_REMEDIES.get(status, '')}What was uploaded stays there, and the same command "
            "resumes"
        ) from None


def _published(
    api: HfApi, destination: Destination, files: Files, title: str
) -> tuple[str, list[SentFile]]:
    repository, sent = destination.repository, []
    api.create_repo(repository, private=destination.private, exist_ok=True)
    if destination.private and not api.repo_info(repository).private:
        raise MlmError(
            f"{repository} exists and is public, and publish.private is true. Make it private in "
            "its settings, name another, or set publish.private: false. Nothing was uploaded"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, file in sorted(files.items()):
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(file, str):
                write_text(place, file)
            else:
                place.symlink_to(file.absolute())
            sent.append(SentFile(name, place.stat().st_size, file_sha256(place)))
        made = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=title)
    # The Hub skips without a word what the repository's .gitignore matches.
    if missing := sorted(files.keys() - set(api.list_repo_files(repository))):
        names = ", ".join(missing[:3])
        raise MlmError(f"{names}: not in {repository} after the upload. Has it a .gitignore?")
    return made.oid, sent


def published_source(publish: Publish, corpus: Corpus) -> str:
    """Return the origin of the text: `publish.source`, else the corpus in words."""
    source = publish.source or SOURCES[corpus.source]
    if corpus.source == "hub" and not publish.source:
        hub = corpus.hub
        source = str(HubSource("hub", "train", str(hub.dataset), hub.config, hub.revision))
    return " ".join(source.split())


def tokenizer_card(
    publish: Publish, source: str, tokens: dict[str, str], stats: TokenizerStatistics
) -> str:
    """Return README.md of the tokenizer, with its special `tokens` by name and its figures."""
    special = [(k, f"`{text}`") for k, text in sorted(tokens.items()) if isinstance(text, str)]
    rows = [
        (split, f"{s.tokens:,}", f"{s.tokens_per_word:.3f}", f"{s.unknown_rate:.4%}")
        for split, s in stats.splits.items()
    ]
    return card(
        ModelCardData(
            license=publish.license,
            language=publish.language,
            library_name="transformers",
            tags=["tokenizer", "masked-lm"],
        ),
        f"# {str(publish.tokenizer).split('/')[1]}",
        f"A tokenizer for masked language models: {stats.kind}, {stats.vocabulary_size:,} ids, for "
        f"{source}.",
        "## Use",
        "```python\nfrom transformers import AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{publish.tokenizer}")\n```',
        "## Special tokens",
        card_table(["", ""], special),
        "## On its corpus",
        card_table(["split", "tokens", "tokens a word", "unknown"], rows),
    )
