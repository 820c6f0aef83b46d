"""Numbers and settings as a reader writes them: the filters of the report's templates."""

import math

#: Items of a list, or shards of a split, that the page shows; report.json has all.
MOST_SHOWN = 250
#: Shown where there is no figure.
NONE = "–"


def count(number: float | None) -> str:
    """A whole number with a comma between thousands."""
    return NONE if number is None else f"{round(number):,}"


def decimal(number: float | None, digits: int = 2) -> str:
    """A number with `digits` decimals and a comma between thousands."""
    if number is None:
        return NONE
    return f"{number:,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 in percent; number and sign stay on one line."""
    return NONE if share is None else f"{share * 100:.{digits}f}\u00a0%"


def rate(share: float | None) -> str:
    """A small share in percent, with enough digits to be told from zero."""
    if not share:
        return NONE if share is None else "0\u00a0%"
    digits = max(1, 1 - math.floor(math.log10(share * 100)))
    return f"{share * 100:.{min(digits, 6)}f}\u00a0%"


def _scaled(number: float, units: tuple[str, str, str], form: str) -> str | None:
    """`number` in the largest of the units of 10^9, 10^6 and 10^3 that it fills."""
    for unit, factor in zip(units, (1e9, 1e6, 1e3), strict=True):
        if number >= factor:
            return f"{number / factor:{form}}\u00a0{unit}"
    return None


def size(number: float | None) -> str:
    """A number of bytes in B, kB, MB or GB (powers of 1000)."""
    if number is None:
        return NONE
    return _scaled(number, ("GB", "MB", "kB"), ",.1f") or f"{number:,.0f} B"


def short(number: float | None) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    if number is None:
        return NONE
    return _scaled(number, ("B", "M", "k"), ".3g") or f"{number:,.0f}"


def value(setting: object) -> str:
    """A setting as text: what is not set, true, false, numbers and lists."""
    if setting is None:
        return "not set"
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    if isinstance(setting, float):
        return f"{setting:g}"
    if isinstance(setting, int):
        return f"{setting:,}" if abs(setting) >= 10_000 else str(setting)
    if isinstance(setting, dict):
        return ", ".join(f"{k} {value(v)}" for k, v in setting.items()) or "none"
    if isinstance(setting, list | tuple):
        shown = [value(x) for x in setting[:MOST_SHOWN]]
        if len(setting) > MOST_SHOWN:
            shown.append(f"and {len(setting) - MOST_SHOWN:,} more")
        return ", ".join(shown) or "none"
    return str(setting)
