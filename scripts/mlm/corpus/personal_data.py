"""E-mail addresses, IP addresses and phone numbers, found by patterns in linear time."""

import re
from collections.abc import Mapping
from functools import partial
from ipaddress import IPv6Address

from mlm.corpus.artefacts import TakenByRule

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_PATTERNS = {
    "email": re.compile(
        r"(?<![\w.%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])"
    ),
    "ip_address": re.compile(
        rf"(?<![\w.:])(?:{_OCTET}(?:\.{_OCTET}){{3}}(?!\w|\.\d)"
        r"|[0-9A-Fa-f]{4}(?:::?[0-9A-Fa-f]{1,4}){1,7}(?:::)?(?!\w|:\w))"
    ),
    "phone_number": re.compile(
        r"(?<![\w+])(?:\+|00)[1-9](?:[ ./()-]{0,2}\d){7,14}(?![ .-]?\d)"
        r"|(?<![\w+.-])(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![.-]?\w)"
    ),
}
#: A character without which nothing is found: most texts have none of them.
_NEEDED = {"email": ("@",), "ip_address": (".", ":"), "phone_number": ("+", "00", "-", ".")}


class PersonalData:
    """The patterns that `corpus.filters.personal_data` switches on."""

    def __init__(self, settings: Mapping):
        self._kinds = {k: settings[k] for k in _PATTERNS if settings.get(k, "keep") != "keep"}
        self._placeholders = settings.get("placeholders", {})
        self.rules = [f"personal_data.{kind}" for kind in self._kinds]

    def judged(self, text: str, taken: dict[str, TakenByRule]) -> tuple[str, str | None]:
        """`text` with placeholders, and the rule that leaves it out, if any."""
        for kind, action in self._kinds.items():
            if not any(character in text for character in _NEEDED[kind]):
                continue
            found = [m[0] for m in _PATTERNS[kind].finditer(text) if _is_personal(m[0])]
            if not found:
                continue
            rule = f"personal_data.{kind}"
            if action == "drop":
                taken[rule] = TakenByRule.of_one(len(text), None)
                return text, kind
            taken[rule] = TakenByRule.of_one(sum(map(len, found)), None)
            text = _PATTERNS[kind].sub(partial(_replaced, self._placeholders[kind]), text)
        return text, None


def _replaced(placeholder: str, match: re.Match) -> str:
    return placeholder if _is_personal(match[0]) else match[0]


def _is_personal(found: str) -> bool:
    # The pattern of IPv6 addresses finds more than these.
    try:
        return ":" not in found or bool(IPv6Address(found))
    except ValueError:
        return False
