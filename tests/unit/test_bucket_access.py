"""Which bucket a prefix names."""

import pytest

from mlm.foundations.errors import MlmError
from mlm.results.bucket_access import bucket_of


@pytest.mark.parametrize("prefix", ["gs://mine/corpus", "gs://mine", "gcs://mine/a/b"])
def test_the_bucket_of_a_prefix(prefix):
    assert bucket_of(prefix) == "mine"


@pytest.mark.parametrize("prefix", [None, "", "gs://", "gs:///x", "mine/corpus", "s3://mine/x"])
def test_a_prefix_without_a_bucket_is_refused(prefix):
    with pytest.raises(MlmError, match="gs://my-bucket/my-corpus"):
        bucket_of(prefix)
