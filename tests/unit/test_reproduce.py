import pytest
from loaded_script import loaded
from snakemake.cli import parse_args
from tests.conftest import refusal

from mlm.foundations.artefacts import write_artefact

RESULT = "results/runs/base/evaluation.json"


@pytest.fixture
def reproduce():
    return loaded("reproduce")


@pytest.mark.parametrize("file", [f"there/{RESULT}", RESULT])
def test_a_file_is_named_from_here_or_from_its_directory(reproduce, here, file):
    write_artefact(here / "there" / RESULT, {"made_from": {"rule": "evaluate"}})
    assert reproduce.name_below(here / "there", file) == RESULT


@pytest.mark.parametrize("file", ["", ".", "gone.json", "results"])
def test_what_is_no_record_is_refused_with_an_example(reproduce, here, file):
    (here / "results").mkdir()
    assert RESULT in refusal(reproduce.chain, here, reproduce.name_below(here, file))


def test_the_command_that_it_prints_makes_the_file(reproduce):
    _, arguments = parse_args(reproduce.command_that_makes(RESULT)[1:])
    assert [*arguments.targets] == [RESULT] and len(arguments.configfile) == 1
