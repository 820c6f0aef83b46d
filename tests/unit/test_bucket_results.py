import pytest

from mlm.foundations.errors import MlmError
from mlm.foundations.result_checks import bucket_and_folder


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("gs://mine/corpus", "corpus/"),
        ("gs://mine", ""),
        ("gs://mine/", ""),
        ("gcs://mine/a/b/", "a/b/"),
    ],
)
def test_the_bucket_and_the_folder_of_a_prefix(prefix, folder):
    assert bucket_and_folder(prefix) == ("mine", folder)


@pytest.mark.parametrize("prefix", [None, "", "gs://", "gs:///x", "mine/corpus", "s3://mine/x"])
def test_a_prefix_without_a_bucket_is_refused(prefix):
    with pytest.raises(MlmError, match="gs://my-bucket/my-corpus"):
        bucket_and_folder(prefix)
