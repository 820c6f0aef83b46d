"""Results in a bucket: whether it can be used, and a look at them before anything is planned.

Snakemake keeps what it fetched and believes that the bucket still holds the same; and it takes
every object that is newer than its inputs as done, whoever made it.
"""

import base64
import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mlm.foundations.artefacts import is_artefact
from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError, remedy
from mlm.foundations.result_checks import Params, check_results, is_no_newer

#: Where Snakemake keeps what it fetched: below it the bucket's name and the object's.
_FETCHED = Path(".snakemake/storage/gcs")


def bucket_and_folder(prefix: str | None) -> tuple[str, str]:
    """The bucket's name in gs://bucket/folder, and `folder/`, empty if there is none."""
    if not (parts := re.fullmatch(r"gc?s://([^/]+)/*(.*?)/*", prefix or "")):
        raise MlmError(
            f"--default-storage-prefix is {prefix!r}; a bucket and a prefix in it are expected, "
            "such as gs://my-bucket/my-corpus"
        )
    return parts[1], f"{parts[2]}/" if parts[2] else ""


def objects_below(prefix: str | None) -> dict[str, Any]:
    """The objects of results below the bucket's `prefix`, by their paths from results/ on. MlmError
    if there is no such bucket, which the storage plugin would make, or it may not be used."""
    name, folder = bucket_and_folder(prefix)
    from google.cloud import storage

    try:
        options = {"prefix": f"{folder}results/", "timeout": 30, "retry": None}
        blobs = storage.Client().list_blobs(name, **options)
        return {blob.name.removeprefix(folder): blob for blob in blobs}
    except Exception as error:  # The libraries below have no base class in common.
        raise MlmError(
            f"gs://{name}: cannot be used from here ({type(error).__name__}: {error}). Check the "
            "bucket's name in --default-storage-prefix, the network and the login (gcloud auth "
            "application-default login); docs/cluster.md shows how to create a bucket and which "
            "roles are needed. Then run the same command again: what is done stays done"
        ) from error


def check_bucket(prefix: str, results: Iterable[str], params_of: Params) -> list[str]:
    """The problems of the artefacts below the bucket's `prefix`; see `check_results`.

    Fetched copies that differ from what the bucket holds now are removed, so that they are
    fetched anew.
    """
    objects, (name, folder) = objects_below(prefix), bucket_and_folder(prefix)
    _forget_outdated(_FETCHED / name / folder, objects)
    artefacts = [path for path in results if is_artefact(path) and path in objects]

    def fetch(path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        objects[path].download_to_filename(path)
        os.utime(path, 2 * (objects[path].updated.timestamp(),))

    # Here: some of the params are digests of files in this directory.
    params = {path: params_of(path) for path in artefacts}
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
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
    import google_crc32c

    for file in filter(Path.is_file, (fetched / "results").rglob("*")):
        blob = objects.get(file.relative_to(fetched).as_posix())
        checksum = google_crc32c.Checksum()
        with open(file, "rb") as handle:
            for _ in checksum.consume(handle, 1 << 20):
                pass
        # As Google Cloud Storage writes it: base64 of the big-endian bytes.
        if blob is None or blob.crc32c != base64.b64encode(checksum.digest()).decode("ascii"):
            file.unlink()
