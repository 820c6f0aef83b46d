import pytest
from loaded_script import loaded
from snakemake.cli import parse_args
from tests.conftest import refusal

RESULT = "results/runs/base/evaluation.json"


@pytest.mark.parametrize("file", [".", "gone.json", "results"])
def test_what_is_no_record_is_refused_with_an_example(here, file):
    (here / "results").mkdir()
    assert RESULT in refusal(loaded("reproduce").main, [file])


def test_the_command_that_it_prints_makes_the_file():
    _, arguments = parse_args(loaded("reproduce").command_that_makes(RESULT)[1:])
    assert [*arguments.targets] == [RESULT] and len(arguments.configfile) == 1
