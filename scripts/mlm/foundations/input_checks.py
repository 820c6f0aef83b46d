"""Files that a job reads, checked against what their makers recorded."""

import os
from collections.abc import Iterable

from mlm.foundations.artefacts import is_artefact, made_from, portable
from mlm.foundations.digests import file_sha256, result_sha256
from mlm.foundations.errors import MlmError, remedy


def check_inputs(paths: Iterable[str], unread: Iterable[str] = ()) -> dict[str, str]:
    """Check a job's inputs against the records of their makers; return their sha256 by path.

    Of all input `paths`, those below results/ are checked that a record among them names. Of the
    ones in `unread`, which the job itself checks or does not open, the recorded digests are taken.
    Raises MlmError if an input is damaged or not what its maker wrote, or two of them were made
    from different versions of the same file.
    """
    results = {portable(path): str(path) for path in paths}
    results = {name: path for name, path in results.items() if name.startswith("results/")}
    # By name: its sha256, the artefact that records it, and whether that was made with it.
    claims: dict[str, tuple[str, str, bool]] = {}
    for by, path in sorted(results.items()):
        if not is_artefact(path):
            continue
        record = made_from(path)
        written = {by: file_sha256(path), **record.outputs}
        for digests, is_maker in ((written, True), (record.inputs, False)):
            for name, sha256 in sorted(digests.items()):
                other, claimed_by, by_maker = claims.get(name, (sha256, by, is_maker))
                if other != sha256:
                    stale = [b for b, m in ((by, is_maker), (claimed_by, by_maker)) if not m]
                    raise MlmError(
                        f"Results that do not belong together: {by} goes with another {name} "
                        f"(sha256 {sha256[:12]}…) than {claimed_by} (sha256 {other[:12]}…). "
                        f"{remedy(*(stale or [by]))}"
                    )
                if is_maker or name not in claims:
                    claims[name] = sha256, by, is_maker
    unread = set(map(portable, unread))
    return {
        name: claims[name][0] if name in unread else _checked(path, claims[name][0])
        for name, path in sorted(results.items())
        if name in claims
    }


def check_outputs(
    artefact: str | os.PathLike, paths: Iterable[str | os.PathLike]
) -> dict[str, str]:
    """Return the sha256, by path, of those of `paths` that the record of `artefact` beside them
    names. Raises MlmError if one is not what was written."""
    recorded = made_from(artefact).outputs
    named = {str(path): recorded.get(portable(path)) for path in paths}
    return {path: _checked(path, sha256) for path, sha256 in named.items() if sha256 is not None}


def _checked(path: str, recorded: str) -> str:
    """Return the sha256 of the result `path`; raises MlmError if it is not the `recorded` one."""
    if (sha256 := result_sha256(path)) != recorded:
        raise MlmError(
            f"{path} is damaged: it is not what was written (sha256 {sha256[:12]}…, recorded "
            f"{recorded[:12]}…). {remedy(portable(path))}"
        )
    return sha256
