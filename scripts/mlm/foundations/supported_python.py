"""The Pythons that the pinned packages are for. Any Python 3.8 reads this: no newer syntax here."""

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)


def unsuitable(version: tuple) -> str:
    """What is wrong with the Python `version` (3, minor, ...), in words; "" where it suits."""
    if OLDEST_PYTHON <= tuple(version[:2]) <= NEWEST_PYTHON:
        return ""
    words = [".".join(map(str, v[:2])) for v in (version, OLDEST_PYTHON, NEWEST_PYTHON)]
    return "Python {} does not suit; the pinned packages are for {} to {}".format(*words)
