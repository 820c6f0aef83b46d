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
    return NONE if number is None else f"{number:z,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 in percent; number and sign stay on one line."""
    return NONE if share is None else f"{share * 100:.{digits}f}\u00a0%"


def rate(share: float | None) -> str:
    """A small share in percent, with enough digits to be told from zero."""
    if not share:
        return NONE if share is None else "0\u00a0%"
    digits = max(1, 1 - math.floor(math.log10(share * 100)))
    return f"{share * 100:.{min(digits, 6)}f}\u00a0%"


def short(number: float) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    for unit, factor in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g}\u00a0{unit}"
    return f"{number:,.0f}"


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
