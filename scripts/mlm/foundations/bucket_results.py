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
from mlm.foundations.result_checks import Found, Params, look_over

#: Where Snakemake keeps what it fetched: below it the bucket's name and the object's.
_FETCHED = Path(".snakemake/storage/gcs")


def bucket_and_folder(prefix: str | None) -> tuple[str, str]:
    """The bucket's name in gs://bucket/folder, and `folder/`, empty if there is none."""
    if not (found := re.fullmatch(r"gc?s://([^/]+)/*(.*?)/*", prefix or "")):
        raise MlmError(
            f"--default-storage-prefix is {prefix!r}; a bucket and a prefix in it are expected, "
            "such as gs://my-bucket/my-corpus"
        )
    return found[1], f"{found[2]}/" if found[2] else ""


def check_bucket(prefix: str | None) -> None:
    """Raise MlmError if there is no such bucket or this machine may not use it.

    Without this check the storage plugin would make a bucket whose name is misspelt.
    """
    name, _ = bucket_and_folder(prefix)
    from google.cloud import storage

    try:
        bucket = storage.Client().lookup_bucket(name, timeout=30, retry=None)
    except Exception as error:  # The libraries below have no base class in common.
        raise MlmError(
            f"gs://{name}: cannot be used from here ({type(error).__name__}: {error}). Check the "
            "network; log in with 'gcloud auth application-default login', or name a service "
            "account's key file in GOOGLE_APPLICATION_CREDENTIALS; grant it "
            "roles/storage.objectUser and roles/storage.legacyBucketReader on the bucket. Then "
            "run the same command again: what is done stays done"
        ) from error
    if bucket is None:
        raise MlmError(
            f"gs://{name}: there is no such bucket. Make it (gcloud storage buckets create "
            f"gs://{name} --location=REGION), or correct --default-storage-prefix"
        )


def look_over_bucket(prefix: str, results: Iterable[str], params_of: Params) -> Found:
    """`look_over` the artefacts below the bucket's `prefix`; all that it finds are problems.

    Fetched copies that differ from what the bucket holds now are removed, so that they are
    fetched anew.
    """
    from google.cloud import storage

    name, inside = bucket_and_folder(prefix)
    bucket = storage.Client().bucket(name)
    blobs = bucket.client.list_blobs(bucket, prefix=f"{inside}results/")
    objects = {blob.name.removeprefix(inside): blob for blob in blobs}
    _forget_outdated(_FETCHED / name / inside, objects)
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
        found = look_over(artefacts, params.get, FileMemory(None))
    stale = [
        f"{path} goes with another {other} than is there. {remedy(path)}"
        for other, path in found.replaced.items()
    ]
    there = f"gs://{name}/{inside}results/"
    problems = (re.sub(r"(?<!\S)results/", there, text) for text in found.problems + stale)
    return Found([text.replace("rm gs://", "gcloud storage rm gs://") for text in problems])


def _forget_outdated(fetched: Path, objects: Mapping[str, Any]) -> None:
    import google_crc32c

    for file in (fetched / "results").rglob("*"):
        if not file.is_file():
            continue
        blob = objects.get(file.relative_to(fetched).as_posix())
        checksum = google_crc32c.Checksum()
        with open(file, "rb") as handle:
            for _ in checksum.consume(handle, 1 << 20):
                pass
        # As Google Cloud Storage writes it: base64 of the big-endian bytes.
        if blob is None or blob.crc32c != base64.b64encode(checksum.digest()).decode("ascii"):
            file.unlink()
