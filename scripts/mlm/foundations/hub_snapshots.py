"""Files of a repository on the Hugging Face Hub at a commit, from the local cache if there."""

from collections.abc import Sequence

from mlm.foundations.errors import MlmError


def snapshot(key: str, name: str, commit: str, files: Sequence[str]) -> str:
    """The directory with those of `files` (patterns) that the repository `name`, named by the
    setting `key`, has at `commit`; MlmError if they cannot be had."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return huggingface_hub.snapshot_download(name, revision=commit, allow_patterns=list(files))
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        raise MlmError(
            f"{key}: {name} at commit {commit} is no directory here, not in the local cache, nor "
            f"did the Hub give it ({type(error).__name__}). A private one needs your token in the "
            "environment variable HF_TOKEN. Without a network here, run "
            f"`hf download {name} --revision {commit}` elsewhere with the same HF_HOME, or name a "
            f"directory in {key}."
        ) from None
