"""The Pythons that the pinned packages are for. Any Python 3.8 reads this: no newer syntax here."""

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)

#: Their commands, the newest first.
COMMANDS = tuple(f"python3.{minor}" for minor in range(NEWEST_PYTHON[1], OLDEST_PYTHON[1] - 1, -1))


def unsuitable(version: tuple) -> str:
    """What is wrong with the Python `version` (3, minor, ...), in words; "" where it suits."""
    found, oldest, newest = (
        ".".join(map(str, v[:2])) for v in (version, OLDEST_PYTHON, NEWEST_PYTHON)
    )
    if OLDEST_PYTHON <= tuple(version[:2]) <= NEWEST_PYTHON:
        return ""
    wrong = "old" if tuple(version[:2]) < OLDEST_PYTHON else "new"
    return f"Python {found} is too {wrong}; the pinned packages are for {oldest} to {newest}"
