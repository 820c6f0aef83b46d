"""Can results be kept in this bucket? Checked before the first job, and answered in words."""

from mlm.foundations.errors import MlmError

_SCHEMES = ("gs://", "gcs://")


def bucket_and_folder(prefix: str | None) -> tuple[str, str]:
    """The bucket's name in gs://bucket/folder, and `folder/`, empty where there is none.

    Raises MlmError where no bucket is named.
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
    """Raise MlmError where there are no credentials, no such bucket, or no right to use it.

    Without this check the storage plugin would make a bucket whose name is misspelt.
    """
    name, _ = bucket_and_folder(prefix)
    from google.api_core.exceptions import Forbidden, GoogleAPIError, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from google.cloud import storage
    from requests.exceptions import RequestException

    try:
        bucket = storage.Client().lookup_bucket(name, timeout=30, retry=None)
    except DefaultCredentialsError as error:
        raise MlmError(
            f"gs://{name}: no credentials for Google Cloud were found on this machine. Log in with "
            "'gcloud auth application-default login', or name a service account's key file in "
            "GOOGLE_APPLICATION_CREDENTIALS"
        ) from error
    except (Forbidden, Unauthorized, GoogleAuthError) as error:
        raise MlmError(
            f"gs://{name}: this machine's credentials may not use the bucket ({error}). Grant them "
            "roles/storage.objectUser and roles/storage.legacyBucketReader on it, or log in as "
            "somebody else"
        ) from error
    except (GoogleAPIError, RequestException, OSError) as error:
        raise MlmError(
            f"gs://{name}: the storage could not be reached ({type(error).__name__}: {error}). "
            "Check the network and run the same command again: what is done stays done"
        ) from error
    if bucket is None:
        raise MlmError(
            f"gs://{name}: there is no such bucket. Make it (gcloud storage buckets create "
            f"gs://{name} --location=REGION), or correct --default-storage-prefix"
        )
