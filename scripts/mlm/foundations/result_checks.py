"""Results, on this disk or in a bucket, checked before anything is planned against what they record
of themselves.

Snakemake compares dates and its own notes. Neither shows that a result was damaged, or replaced by
an older one with its old date. With a bucket, it keeps what it fetched and
believes that the bucket still holds the same; and it takes every object that is newer than its
inputs as done, whoever made it.
"""

import hashlib
import os
import re
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlm.foundations.artefacts import compared, is_artefact, made_from, settings_digests
from mlm.foundations.digests import LARGEST_READ, FileMemory, result_sha256
from mlm.foundations.errors import MlmError, remedy

#: Where Snakemake keeps what it fetched: below it the bucket's name and the object's.
_FETCHED = Path(".snakemake/storage/gcs")
#: From the path of a result to the params with which a job would make it now; None if none would.
Params = Callable[[str], Mapping[str, Any] | None]


def refuse_unusable(
    results: Iterable[str],
    on_request: Iterable[str],
    params_of: Params,
    memory: FileMemory,
    bucket: str | None,
) -> None:
    """Raise MlmError, which names them all, if results cannot be used; see `problems_of`.

    Damage to results that are made `on_request` is reported, too: which targets are asked for is
    not known yet. `bucket` is the prefix of results in one.
    """
    if bucket is not None:
        problems = problems_in_bucket(bucket, results, params_of)
    else:
        # Of a copy of the results alone, Snakemake has no notes, in files or in a database.
        place, everything = Path(".snakemake"), {*results, *on_request}
        if any(place.glob("metadata/*")) or any(place.glob("metadata.db")):
            problems = problems_of(everything, memory)
        elif not (problems := problems_of(everything, memory, params_of, by_date=False)):
            give_copies_one_date()
    if problems:
        raise MlmError("\n".join(["Results that cannot be used:", *problems]))
    memory.save()


def problems_of(
    results: Iterable[str],
    memory: FileMemory,
    params_of: Params = lambda path: None,
    by_date: bool = True,
) -> list[str]:
    """Return what is wrong with each artefact among `results`, all that the configuration asks for,
    by its record and by what is there; `memory` remembers the digests of files.

    A record of another input than today's is a problem if Snakemake, `by_date`, would not see it. A
    record of other settings is, if `params_of` has today's: Snakemake has no notes on that result.
    """

    def differs(path: str, sha256: str) -> bool:
        # The job that reads a larger one checks it then.
        is_read_here = Path(path).is_file() and os.stat(path).st_size <= LARGEST_READ
        return is_read_here and memory.value("result", path, result_sha256) != sha256

    problems, damaged = [], {}
    for path in sorted(set(filter(is_artefact, results))):
        if not Path(path).is_file():
            continue
        try:
            record = memory.value("record", path, lambda p: asdict(made_from(p)))
        except MlmError as error:
            problems.append(str(error))
            continue
        damaged |= {
            other: f"{other} is damaged: it is not what was written beside {path} "
            f"({os.stat(other).st_size} bytes, recorded sha256 {sha256[:12]}…). {remedy(other)}"
            for other, sha256 in sorted(record["outputs"].items())
            if differs(other, sha256)
        }
        if (params := params_of(path)) is not None and record["settings"]:
            today = settings_digests(params).items()
            if differing := sorted({name for name, _ in today ^ record["settings"].items()}):
                problems.append(
                    f"{path} was made with another {', '.join(differing)} than is asked for now, "
                    f"and Snakemake has no notes on it. {remedy(path)}. Or keep these results and "
                    "run in another directory (snakemake --directory)"
                )
        for other, sha256 in sorted(record["inputs"].items()):
            if not differs(other, sha256):
                continue
            if not (by_date and os.stat(other).st_mtime > os.stat(path).st_mtime):
                problems.append(
                    f"{path} was made from another {other} (sha256 {sha256[:12]}…) than is there "
                    f"now: one of the two is an older version, or from elsewhere. {remedy(path)}"
                )
    return problems + list(damaged.values())


def give_copies_one_date() -> None:
    """Give results and benchmarks, by which Snakemake goes as well, the date of the oldest. A copy
    has the dates of the copying, and Snakemake makes again what is older than its inputs."""
    files = [f for place in ("results", "logs") for f in Path(place).rglob("*") if f.is_file()]
    oldest = min((os.stat(file).st_mtime_ns for file in files), default=0)
    for file in files:
        os.utime(file, ns=(oldest, oldest))


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


def problems_in_bucket(prefix: str, results: Iterable[str], params_of: Params) -> list[str]:
    """Return the problems of the artefacts below the bucket's `prefix`; see `problems_of`.

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
        problems = problems_of(artefacts, FileMemory(None), params.get)
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
