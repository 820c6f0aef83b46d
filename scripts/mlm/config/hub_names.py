"""What the Hugging Face Hub calls things: names of repositories, and commits."""

import re

_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_LONGEST = 96


def is_commit(revision: str | None) -> bool:
    """Whether `revision` is a commit's full hash: a branch or a tag can move."""
    return bool(revision) and _COMMIT.fullmatch(revision) is not None


def unpinned(path: str, revision: str | None) -> list[str]:
    """A line where the `revision` at `path` pins nothing; none where it is a commit."""
    if is_commit(revision):
        return []
    found = f"{revision!r} is not a commit id" if revision else "missing"
    return [
        f"{path}: {found}; expected the 40 hexadecimal digits of a commit, since a branch or a tag "
        "can move. They are on the repository's page on the Hub, under Files, History"
    ]


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a repository, or None.

    Follows the rules of the Hub: owner/name, letters, digits, `-`, `_` and `.`, of which
    neither `--` nor `..`, at most 96 characters.
    """
    parts = name.split("/")
    if len(parts) != 2:
        return f"{name!r} is not the name of a repository; owner/name is expected"
    if (
        not all(_NAME.fullmatch(part) for part in parts)
        or "--" in name
        or ".." in name
        or name.endswith(".git")
        or len(name) > _LONGEST
    ):
        return (
            f"{name!r} cannot be the name of a repository; the Hub takes letters, digits, '-', "
            f"'_' and '.' (none of '--', '..', '.git' at the end), at most {_LONGEST} characters"
        )
    return None
