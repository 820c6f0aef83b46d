"""Counts, sizes and times in words."""


def plural(number: int, noun: str) -> str:
    """A whole number with its noun, such as "3 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_bytes(size: float) -> str:
    """A size in kB, MB, GB or TB."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size / 1e3:.0f} kB"


def in_binary_bytes(size: float) -> str:
    """A size in MiB or GiB, as memory is made."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def in_time(seconds: float) -> str:
    """A time in the unit that suits it, roughly; 1 s at least."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return "1 s"


def in_exact_time(seconds: float) -> str:
    """A time in the unit that suits it, also below a second."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.2g} ms"
