"""The files of each repository, and the record of where they went.

`section` is the section `publish`, which names the repository; `source` says where the text comes
from. A file that is not what its maker recorded is an MlmError, and nothing is sent.
"""

import contextlib
import hashlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import huggingface_hub
from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.utils import disable_progress_bars, logging

from mlm.config.publish import Publish, licence_of
from mlm.config.tokenizer import TOKENIZER_FILES
from mlm.evaluation.artefacts import METRICS, EvaluationFigures
from mlm.foundations.artefacts import MadeFrom, as_json, portable
from mlm.foundations.atomic import canonical_json, read_json
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import MlmError, remedy
from mlm.publishing.artefacts import Destination, PublishRecord, SentFile
from mlm.publishing.metadata import dataset_card, tokenizer_card
from mlm.publishing.secrecy import scrubbed, token_from_environment
from mlm.samples.manifests import Manifest, project_root
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.artefacts import Training
from mlm.training.model_card import model_card

#: The figures of evaluation.json that are published: none contains text of the corpus.
_FIGURES = (
    *("format_version", "run", "test", "train", "baselines", "frequency_bands", "calibration"),
    *("verdicts", "group_by", "digests"),
)
#: Shards of an earlier publication that have other names than the new ones are removed.
_SHARDS = "data/*/*.tfrecord"


@dataclass(frozen=True)
class Upload:
    """A file to send, or the content of one, and its sha256."""

    source: Path | bytes
    sha256: str

    @classmethod
    def of(cls, content: str | bytes) -> "Upload":
        content = content.encode() if isinstance(content, str) else content
        return cls(content, hashlib.sha256(content).hexdigest())

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def place_at(self, path: Path) -> None:
        """Make `path` a link to the file, or write the content there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.source, bytes):
            path.write_bytes(self.source)
        else:
            path.symlink_to(self.source.absolute())


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
    `tokenizer`, whose tokenizer_stats.json is `stats`."""
    read = {split: Manifest.read(path) for split, path in manifests.items()}
    files: dict[str, Upload] = {}
    for split, manifest in read.items():
        root = project_root(manifests[split])
        shards = {f"data/{split}/{s.name}": (root / s.path, s.sha256) for s in manifest.shards}
        files |= _checked(shards, manifests[split])
    outputs = TokenizerStatistics.read(stats).made_from.outputs
    files |= _checked(_recorded(tokenizer, TOKENIZER_FILES, outputs, "tokenizer/"), stats)
    for split, manifest in read.items():
        shards = tuple(replace(s, path=f"data/{split}/{s.name}") for s in manifest.shards)
        published = replace(manifest, shards=shards, made_from=MadeFrom())
        files[f"manifests/{split}.json"] = Upload.of(canonical_json(as_json(published)))
    card = dataset_card(section, source, read)
    return _publish("dataset", section, files, card, "Publish the shards", _SHARDS)


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
    files = _checked(_recorded(directory, names, trained.made_from.outputs), training)
    files["training.json"] = Upload.of(Path(training).read_bytes())
    files["evaluation.json"] = Upload.of(canonical_json(figures))
    record = _publish("model", section, files, card, f"Publish the model of run {trained.run}")
    return replace(record, run=trained.run)


def _recorded(
    directory: Path, names: Iterable[str], outputs: Mapping[str, str], prefix: str = ""
) -> dict[str, tuple[Path, str | None]]:
    """Paths in the repository, with the files in `directory` and their digests in `outputs`."""
    return {prefix + n: (directory / n, outputs.get(portable(directory / n))) for n in names}


def _checked(files: Mapping[str, tuple[Path, str | None]], maker: str | Path) -> dict[str, Upload]:
    """The files by path in the repository. MlmError unless `maker` recorded their sha256."""
    uploads, problems = {}, {}
    for name, (path, expected) in files.items():
        uploads[name] = Upload(path, digest := file_sha256(path))
        if digest != expected:
            record = f"{expected[:12]}… is recorded" if expected else "none is recorded"
            problems[path] = f"{path} (sha256 {digest[:12]}…; {record})"
    if problems:
        raise MlmError(
            f"Not what was made, by {maker}: {', '.join(problems.values())}. Nothing was sent. "
            f"{remedy(*problems)}"
        )
    return uploads


def _publish(
    what: str,
    section: Publish,
    files: dict[str, Upload],
    card: str,
    title: str,
    stale: str | None = None,
) -> PublishRecord:
    """Upload the files and the card; the record of what went where."""
    files = files | {"README.md": Upload.of(card)}
    kind = "dataset" if what == "dataset" else "model"
    destination = Destination(getattr(section, what), kind, section.private)
    commit = publish(destination, files, title, stale)
    sent = [SentFile(path, file.size, file.sha256) for path, file in sorted(files.items())]
    return PublishRecord(what, destination, commit, sent)


#: Seconds to connect, and seconds without a byte. A commit of many files takes its time.
TIME_LIMITS = (10.0, 120.0)
_HINTS = {
    401: "The token in HF_TOKEN is mistyped, expired or revoked: make one with write permission",
    402: "Free some space there, or ask for more",
    403: "Name a repository of your own in publish, set HF_TOKEN to a token that may write there, "
    "or free some space",
    429: "Wait for a while",
}


def _limit_time(request: httpx2.Request) -> None:
    """Give up `request` if there is no answer, for which huggingface_hub waits for ever."""
    connect, read = TIME_LIMITS
    request.extensions["timeout"] = httpx2.Timeout(read, connect=connect).as_dict()


def _http_client() -> httpx2.Client:
    return httpx2.Client(event_hooks={"request": [_limit_time]}, follow_redirects=True)


@contextlib.contextmanager
def hub_client(token: str) -> Iterator[HfApi]:
    """The client for HF_ENDPOINT (else huggingface.co) with `token`."""
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise MlmError("HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set. Unset it to publish")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if "@" in urlsplit(endpoint).netloc:
        # They would be sent in the place of the token.
        raise MlmError("HF_ENDPOINT holds a user name or password. Remove it; it is not shown here")
    # The client's warnings show signed links.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    disable_progress_bars()
    huggingface_hub.set_client_factory(_http_client)
    try:
        yield HfApi(endpoint=endpoint, token=token)
    finally:
        huggingface_hub.close_session()
        logging.set_verbosity(verbosity)


def hub_error(error: Exception, destination: Destination) -> str | None:
    """What went wrong and what to do; None if neither the Hub nor the network is to blame."""
    cause: BaseException | None = error
    # The client wraps what an upload raised; its storage raises Python's own errors.
    while cause and not isinstance(cause, httpx2.HTTPError | ConnectionError | TimeoutError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    response = getattr(cause, "response", None)
    if response is None:
        reasons = re.findall(r"\[Errno -?\d+\] ([^'\"()]+)|(timed out)", str(cause))
        reason = "".join(reasons[-1]).strip() if reasons else f"{type(cause).__name__}: {cause}"
        return f"The Hub cannot be reached: {reason}. Check the network and HF_ENDPOINT"
    status = response.status_code
    answer = getattr(cause, "server_message", None) or response.text or response.reason_phrase
    message = " ".join(answer.split())[:300].rstrip(".")
    words = f"The Hub refused what was sent to {destination} ({status}): {message}"
    return f"{words}. {_HINTS[status]}" if status in _HINTS else words


def publish(
    destination: Destination, files: Mapping[str, Upload], title: str, stale: str | None = None
) -> str:
    """Upload `files`, by their paths, to a repository that is made if it is missing, remove its
    other files that match the pattern `stale`, and return the last commit. huggingface_hub repeats
    requests that fail in passing, commits many files in groups, and sends nothing that is there, so
    that a rerun resumes. MlmError, without secrets, if the token or the destination is unfit, or
    the Hub or the network fails."""
    token = token_from_environment()
    with hub_client(token) as api:
        try:
            return _published(api, destination, files, title, stale)
        except MlmError as error:
            raise MlmError(scrubbed(str(error), token)) from None
        except Exception as error:
            words = hub_error(error, destination)
            if words is None:
                print(scrubbed(traceback.format_exc(), token), file=sys.stderr)
                words = f"Publishing to {destination} failed: {type(error).__name__}: {error}"
            resumed = "What was uploaded stays there, and the same command resumes"
            raise MlmError(scrubbed(f"{words}. {resumed}", token)) from None


def _published(
    api: HfApi, destination: Destination, files: Mapping[str, Upload], title: str, stale: str | None
) -> str:
    _make(api, destination)
    total = sum(file.size for file in files.values())
    where = f"{destination.repository}: {title}"
    print(f"{where}, {len(files)} file(s), {total:,} bytes", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path, file in files.items():
            file.place_at(Path(folder, path))
        made = api.upload_folder(
            **destination.place, folder_path=folder, commit_message=title, delete_patterns=stale
        )
    # The Hub skips without a word what the repository's .gitignore matches.
    if missing := sorted(files.keys() - set(api.list_repo_files(**destination.place))):
        names = ", ".join(missing[:3])
        raise MlmError(f"{names}: not in {destination} after the upload. Has it a .gitignore?")
    return made.oid


def _make(api: HfApi, destination: Destination) -> None:
    """Make the repository if it is missing; MlmError if a public one is to be private."""
    place = destination.place
    try:
        repository = api.repo_info(**place)
    except RepositoryNotFoundError:
        api.create_repo(**place, private=destination.private, exist_ok=True)
        repository = api.repo_info(**place)
    if destination.private and not repository.private:
        raise MlmError(
            f"{destination} exists and is public, and publish.private is true. Make it private in "
            "its settings, name another, or set publish.private: false. Nothing was uploaded"
        )
