"""E-mail addresses, IP addresses and phone numbers, found by patterns.

Patterns find most and not all, and what only looks like one: docs/corpus.md says which forms. Each
takes time linear in the text.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv6Address

from mlm.corpus.rule_counts import Taken

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
    """The patterns that `settings` (the section `corpus.filters.personal_data`) switch on."""

    def __init__(self, settings: Mapping):
        self._kinds = {k: settings[k] for k in _PATTERNS if settings.get(k, "keep") != "keep"}
        self._placeholders = settings.get("placeholders", {})
        self.rules = [f"personal_data.{kind}" for kind in self._kinds]

    def judged(self, text: str, taken: list[Taken]) -> tuple[str, str | None]:
        """`text` with placeholders, and the rule that leaves out all of it; None: it stays.

        What was taken is added to `taken`, and is not among the samples.
        """
        for kind, action in self._kinds.items():
            if not any(character in text for character in _NEEDED[kind]):
                continue
            replacement = _Replacement(self._placeholders[kind])
            replaced = _PATTERNS[kind].sub(replacement, text)
            if not replacement.characters:
                continue
            rule = f"personal_data.{kind}"
            if action == "drop":
                taken.append(Taken(rule, len(text), None))
                return text, kind
            taken.append(Taken(rule, replacement.characters, None))
            text = replaced
        return text, None


class _Replacement:
    """Puts a placeholder in the place of what a pattern found, and counts what it took."""

    def __init__(self, placeholder: str):
        self._placeholder, self.characters = placeholder, 0

    def __call__(self, match: re.Match) -> str:
        found = match[0]
        if ":" in found and not _is_address(found):
            return found
        self.characters += len(found)
        return self._placeholder


def _is_address(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
