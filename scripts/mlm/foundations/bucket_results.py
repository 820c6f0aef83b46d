"""Results in a bucket: whether it can be used, and a look at them before anything is planned.

Snakemake keeps what it fetched and believes that the bucket still holds the same; and it takes
every object that is newer than its inputs as done, whoever made it.
"""

import base64
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mlm.foundations.artefacts import check_inputs, is_artefact, made_from, read_artefact
from mlm.foundations.errors import MlmError
from mlm.foundations.result_checks import Found, of_other_settings

_SCHEMES = ("gs://", "gcs://")
#: Where Snakemake keeps what it fetched: below it the bucket's name and the object's.
_FETCHED = Path(".snakemake/storage/gcs")


def bucket_and_folder(prefix: str | None) -> tuple[str, str]:
    """The bucket's name in gs://bucket/folder, and `folder/`, empty if there is none.

    Raises MlmError if no bucket is named.
    """
    for scheme in _SCHEMES:
        if prefix and prefix.startswith(scheme):
            bucket, _, folder = prefix.removeprefix(scheme).partition("/")
            folder = folder.strip("/")
            if bucket:
                return bucket, f"{folder}/" if folder else ""
    raise MlmError(
        f"--default-storage-prefix is {prefix!r}; a bucket and a prefix in it are expected, such "
        "as gs://my-bucket/my-corpus"
    )


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


def look_over_bucket(
    prefix: str, results: Iterable[str], params_of: Callable[[str], Mapping[str, Any] | None]
) -> Found:
    """Check the artefacts below the bucket's `prefix` against each other and the settings.

    Fetched copies that differ from what the bucket holds now are removed, so that they are
    fetched anew. `results` and `params_of` as in `mlm.foundations.result_checks.look_over`.
    """
    from google.cloud import storage

    name, inside = bucket_and_folder(prefix)
    bucket = storage.Client().bucket(name)
    objects = {b.name: b for b in bucket.client.list_blobs(bucket, prefix=f"{inside}results/")}
    _forget_outdated(_FETCHED / name, inside, objects)
    artefacts = [p for p in results if is_artefact(p) and inside + p in objects]
    found = Found()
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / path for path in artefacts]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(16) as pool:
            fetched = [
                pool.submit(objects[inside + path].download_to_filename, str(file))
                for path, file in zip(artefacts, files, strict=True)
            ]
            for download in fetched:
                download.result()
        current = []
        for path, file in zip(artefacts, files, strict=True):
            where = f"gs://{name}/{inside}{path}"
            try:
                record = made_from(read_artefact(file))
            except MlmError as error:
                found.problems.append(_in_bucket(error, place, name, inside))
                continue
            found.problems += of_other_settings(where, record, params_of(path))
            # After an interruption: Snakemake sees by the dates that these are to be made again.
            made = objects[inside + path].updated
            sources = [objects[inside + p] for p in record.inputs if inside + p in objects]
            if all(source.updated <= made for source in sources):
                current.append(file)
        if not found.problems:
            try:
                check_inputs(map(str, current))
            except MlmError as error:
                found.problems.append(_in_bucket(error, place, name, inside))
    return found


def _in_bucket(error: MlmError, place: str, bucket: str, inside: str) -> str:
    """The message on fetched files, put in terms of the objects that they are copies of."""
    text = str(error).replace(f"{place}/", f"gs://{bucket}/{inside}")
    text = text.replace("rm results/", f"rm gs://{bucket}/{inside}results/")
    return text.replace("rm gs://", "gcloud storage rm gs://")


def _forget_outdated(fetched: Path, inside: str, objects: Mapping[str, Any]) -> None:
    for file in (fetched / inside / "results").rglob("*"):
        if not file.is_file():
            continue
        blob = objects.get(file.relative_to(fetched).as_posix())
        if blob is None or blob.size != file.stat().st_size or blob.crc32c != _crc32c(file):
            file.unlink()


def _crc32c(file: Path) -> str:
    """The checksum as Google Cloud Storage writes it: base64 of the big-endian bytes."""
    import google_crc32c

    checksum = google_crc32c.Checksum()
    with open(file, "rb") as handle:
        for _ in checksum.consume(handle, 1 << 20):
            pass
    return base64.b64encode(checksum.digest()).decode("ascii")
