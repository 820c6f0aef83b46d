"""Results, on this disk or in a bucket, checked before anything is planned against what they record
of themselves.

Snakemake compares dates and its own notes in .snakemake/metadata. Neither shows that a result was
damaged, or replaced by an older one with its old date. With a bucket, it keeps what it fetched and
believes that the bucket still holds the same; and it takes every object that is newer than its
inputs as done, whoever made it.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlm.foundations.artefacts import (
    compared,
    is_artefact,
    made_from,
    result_sha256,
    settings_digests,
)
from mlm.foundations.digests import LARGEST_READ, FileMemory
from mlm.foundations.errors import MlmError, remedy

_NOTES = Path(".snakemake/metadata")
#: Where Snakemake keeps what it fetched: below it the bucket's name and the object's.
_FETCHED = Path(".snakemake/storage/gcs")
#: From the path of a result to the params with which a job would make it now; None if none would.
Params = Callable[[str], Mapping[str, Any] | None]


@dataclass
class ResultCheck:
    """`problems`: damaged results and those from elsewhere, in words. `changed`: results that are
    no longer what others were made from, each with one of those."""

    problems: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)


def refuse_unusable(
    results: Iterable[str],
    on_request: Iterable[str],
    params_of: Params,
    memory: FileMemory,
    bucket: str | None,
) -> None:
    """Raise MlmError, which names them all, if results cannot be used; see `check_results`.

    Damage to results that are made `on_request` is reported, too: which targets are asked for is
    not known yet. `bucket` is the prefix of results in one. If Snakemake, which goes by dates,
    would not see that an input has changed, the input gets today's date.
    """
    if bucket is not None:
        check = ResultCheck(check_bucket(bucket, results, params_of))
    else:
        check = check_results([*results, *on_request], params_of, memory)
        if not check.problems and not check.changed and not any(_NOTES.glob("*")):
            give_copies_one_date()
    if check.problems:
        raise MlmError("\n".join(["Results that cannot be used:", *check.problems]))
    for path, user in check.changed:
        if is_no_newer(path, user):
            print(
                f"{path} is another than the one that {user} was made from, though its date is "
                "older: what follows from it is made again",
                file=sys.stderr,
            )
            os.utime(path)
    memory.save()


def check_backend(name: str) -> None:
    """Raise MlmError if Snakemake's persistence backend `name` writes no notes in files."""
    if name.lower() != "file":
        raise MlmError(
            f"--persistence-backend {name.lower()}: whether results are up to date is read from "
            "files in .snakemake/metadata as well, which this backend does not write. Leave the "
            "option out, also in profiles"
        )


def check_results(results: Iterable[str], params_of: Params, memory: FileMemory) -> ResultCheck:
    """Check each artefact among `results`, all that the configuration asks for, against its record
    and its record against the rest; `memory` remembers the digests of files.

    A record of other settings, code or inputs than today's is a problem only if Snakemake would not
    see it: if its note is missing, or is on another version of the result.
    """

    def differs(path: str, sha256: str) -> bool:
        # The job that reads a larger one checks it then.
        is_read_here = Path(path).is_file() and os.stat(path).st_size <= LARGEST_READ
        return is_read_here and memory.value("result", path, result_sha256) != sha256

    check, damaged = ResultCheck(), {}
    for path in sorted(set(filter(is_artefact, results))):
        if not Path(path).is_file():
            continue
        try:
            record = memory.value("record", path, lambda p: asdict(made_from(p)))
        except MlmError as error:
            check.problems.append(str(error))
            continue
        damaged |= {
            other: f"{other} is damaged: it is not what was written beside {path} "
            f"({os.stat(other).st_size} bytes, recorded sha256 {sha256[:12]}…). {remedy(other)}"
            for other, sha256 in sorted(record["outputs"].items())
            if differs(other, sha256)
        }
        note, params = _note(path), params_of(path)
        if params is not None and record["settings"]:
            today = settings_digests(params).items()
            differing = sorted({name for name, _ in today ^ record["settings"].items()})
            noted = note.get("params")
            if differing and (noted is None or set(noted) == set(map(repr, params.values()))):
                check.problems.append(
                    f"{path} was made with another {', '.join(differing)} than is asked for now, "
                    f"and Snakemake's notes in .snakemake are not on this version. {remedy(path)}. "
                    "Or keep these results and run in another directory (snakemake --directory)"
                )
        for other, sha256 in sorted(record["inputs"].items()):
            if differs(other, sha256):
                check.changed.append((other, path))
                noted = (note.get("input_checksums") or {}).get(other)
                if noted == f"sha256:{memory.sha256(other)}":
                    check.problems.append(
                        f"{path} was made from another {other} (sha256 {sha256[:12]}…) than is "
                        f"there now: it is an older version, or one from elsewhere. {remedy(path)}"
                    )
    check.problems += damaged.values()
    return check


def is_no_newer(path: str, other: str) -> bool:
    """Whether Snakemake, which compares dates, would not see that `path` changed after `other`."""
    return os.stat(path).st_mtime <= os.stat(other).st_mtime


def give_copies_one_date() -> None:
    """Give results and benchmarks, by which Snakemake goes as well, the date of the oldest. A copy
    has the dates of the copying, and Snakemake makes again what is older than its inputs."""
    files = [f for place in ("results", "logs") for f in Path(place).rglob("*") if f.is_file()]
    oldest = min((os.stat(file).st_mtime_ns for file in files), default=0)
    for file in files:
        os.utime(file, ns=(oldest, oldest))


def _note(path: str) -> dict[str, Any]:
    """Return Snakemake's note on the job that made `path`; empty if it has none."""
    with suppress(OSError, ValueError):
        return dict(json.loads((_NOTES / urlsafe_b64encode(path.encode()).decode()).read_bytes()))
    return {}


def params_by_output(made: Iterable[tuple[str, Any]], wanted: Iterable[str]) -> Params:
    """Return a function from a result's path to the `compared` params of the job that makes it.

    None for a result that is not among `wanted`. `made` has, for each output of each rule, a
    regular expression for its path and the rule's params, some of which are functions of the
    wildcards.
    """
    made, wanted = list(made), set(wanted)

    def params_of(path: str) -> Mapping[str, Any] | None:
        for pattern, params in made if path in wanted else ():
            if match := re.fullmatch(pattern, path):
                wildcards = SimpleNamespace(**match.groupdict())
                return compared({n: v(wildcards) if callable(v) else v for n, v in params.items()})
        return None

    return params_of


def bucket_and_folder(prefix: str | None) -> tuple[str, str]:
    """Return the bucket's name in gs://bucket/folder, and `folder/`, empty if there is none."""
    if not (parts := re.fullmatch(r"gc?s://([^/]+)/*(.*?)/*", prefix or "")):
        raise MlmError(
            f"--default-storage-prefix is {prefix!r}; a bucket and a prefix in it are expected, "
            "such as gs://my-bucket/my-corpus"
        )
    return parts[1], f"{parts[2]}/" if parts[2] else ""


def check_bucket(prefix: str, results: Iterable[str], params_of: Params) -> list[str]:
    """Return the problems of the artefacts below the bucket's `prefix`; see `check_results`.

    Fetched copies that differ from what the bucket holds now are removed, so that they are
    fetched anew. Raises MlmError if there is no such bucket, which the storage plugin would make,
    or it may not be used.
    """
    from google.cloud import storage  # pyright: ignore[reportAttributeAccessIssue]

    name, folder = bucket_and_folder(prefix)
    try:
        options = {"prefix": f"{folder}results/", "timeout": 30, "retry": None}
        blobs = storage.Client().list_blobs(name, **options)
        objects = {blob.name.removeprefix(folder): blob for blob in blobs}
    except Exception as error:  # The libraries below have no base class in common.
        raise MlmError(
            f"gs://{name}: cannot be used from here ({type(error).__name__}: {error}). Check the "
            "bucket's name in --default-storage-prefix, the network and the login (gcloud auth "
            "application-default login); docs/cluster.md shows how to create a bucket and which "
            "roles are needed. Then run the same command again: what is done stays done"
        ) from error
    _forget_outdated(_FETCHED / name / folder, objects)
    artefacts = [path for path in results if is_artefact(path) and path in objects]

    def fetch(path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        objects[path].download_to_filename(path)
        os.utime(path, 2 * (objects[path].updated.timestamp(),))

    # Here: some of the params are digests of files in this directory.
    params = {path: params_of(path) for path in artefacts}
    with tempfile.TemporaryDirectory() as place, chdir(place):
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(fetch, artefacts))
        check = check_results(artefacts, params.get, FileMemory(None))
        problems = check.problems + [
            f"{path} goes with another {other} than is there. {remedy(path)}"
            for other, path in check.changed
            if is_no_newer(other, path)
        ]
    there = f"gs://{name}/{folder}results/"
    problems = (re.sub(r"(?<!\S)results/", there, text) for text in problems)
    return [text.replace("rm gs://", "gcloud storage rm gs://") for text in problems]


def _forget_outdated(fetched: Path, objects: Mapping[str, Any]) -> None:
    for file in filter(Path.is_file, (fetched / "results").rglob("*")):
        blob = objects.get(file.relative_to(fetched).as_posix())
        with open(file, "rb") as handle:
            md5 = hashlib.file_digest(handle, "md5").digest()
        if blob is None or blob.md5_hash != b64encode(md5).decode():
            file.unlink()
