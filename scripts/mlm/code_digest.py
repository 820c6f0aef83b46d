"""One sha256 for all the code that a stage runs."""

from pathlib import Path

from mlm.code_edges import code_files
from mlm.digests import file_sha256, value_sha256


def code_digest(scripts: Path, stage: str) -> str | None:
    """The sha256 over `scripts/{stage}.py` and the library files that it imports.

    Names are relative to `scripts`, so that it is the same in every checkout. None where the
    stage has no script.
    """
    script = scripts / f"{stage}.py"
    if not script.is_file():
        return None
    files = [script, *code_files(scripts, stage)]
    return value_sha256({f.relative_to(scripts).as_posix(): file_sha256(f) for f in files})
