# The library of the workflow, where rules and jobs find it.
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from snakemake.exceptions import WorkflowError


def unpacked(file):
    """The repository of `file`, which github(…) names, as a directory: Snakemake reads single files
    from its clone, and the library is many."""
    repository = file.hosted_repo.repo
    commit = repository.git.rev_parse(f"{file.ref}^{{commit}}")
    place = file.cache_path / "checkouts" / commit
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as partial:
            repository.git.archive(commit, output=f"{partial}/archive.tar")
            shutil.unpack_archive(f"{partial}/archive.tar", f"{partial}/files", filter="data")
            # Another process may have been faster.
            with suppress(OSError):
                os.rename(f"{partial}/files", place)
    return place


# Of this file, and not of the workflow that may use this one as a module.
HERE = workflow.current_basedir
BASE = Path(str(HERE)).parent if HERE.is_local else unpacked(HERE)
if str(BASE / "scripts") not in sys.path:
    sys.path.insert(0, str(BASE / "scripts"))
from mlm.foundations import environment, snakemake_session
from mlm.foundations.errors import MlmError, error_in_words


@contextmanager
def errors_in_words():
    """Shows errors that a user can mend as one message."""
    try:
        yield
    except (MlmError, OSError) as error:
        if not (words := error_in_words(error)):
            raise
        # Snakemake would list the lines of the workflow that led here.
        sys.tracebacklimit = 0
        raise WorkflowError(words)


if not HERE.is_local:
    # Snakemake fetches the scripts of jobs one by one.
    os.environ.update(environment.child_environment(BASE / "scripts" / "jobs"))
with errors_in_words():
    snakemake_session.begin(workflow, logger)
