"""The inputs of a small run, which the tests of a module share."""

import pytest
from small_run import write_inputs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("small")
    write_inputs(made)
    return made
