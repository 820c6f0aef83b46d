"""Personal data by patterns: what is found, what is not, and what becomes of it."""

import time
from pathlib import Path

import pytest
from corpus_files import build, described, files

from mlm.config.resolution import resolve
from mlm.corpus.personal_data import PersonalData

KINDS = ("email", "ip_address", "phone_number")


def found(kind: str, text: str) -> bool:
    """Whether something of `kind` is found in `text`, which is then "At {it}."."""
    settings = resolve({"corpus": {"filters": {"personal_data": {kind: "replace"}}}})
    left, rule = PersonalData(settings["corpus"]["filters"]["personal_data"]).judged(text, {})
    assert rule is None
    if left == text:
        return False
    placeholder = settings["corpus"]["filters"]["personal_data"]["placeholders"][kind]
    assert left == f"At {placeholder}."
    return True


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("email", ["a@b.org", "first.last+tag@mail.example.co.uk", "x_1%y@a-b.museum"]),
        ("ip_address", ["192.0.2.1", "255.255.255.255", "2001:db8::1"]),
        ("ip_address", ["2001:0db8:0000:0000:0000:ff00:0042:8329", "fe80::1"]),
        ("phone_number", ["+49 30 901820", "+44 (0)20 7946 0958", "0049-30-901820"]),
        ("phone_number", ["(202) 555-0143", "202-555-0143", "202.555.0143", "+1 202 555 0143"]),
    ],
)
def test_addresses_and_numbers_are_found(kind, texts):
    for text in texts:
        assert found(kind, f"At {text}."), text


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("email", ["a@b", "@handle", "a @ b.org", "a@b.c"]),
        ("ip_address", ["256.1.1.1", "1.2.3", "1.2.3.4.5", "12:30:45", "std::vector", "1999:30"]),
        ("ip_address", ["2001:db8", "1234:5678:9abc", "v1.2.3.4", "dead::beef::cafe"]),
        ("phone_number", ["1914-1918", "100,000", "+5 percent", "12-345-6789", "202-555-01435"]),
        ("phone_number", ["1234567890123", "+1234567890123456", "2024-10-11", "978-0-306-40615-7"]),
    ],
)
def test_what_is_none_stays(kind, texts):
    for text in texts:
        assert not found(kind, f"At {text}."), text


def test_what_is_replaced_or_dropped_is_counted_and_shown_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["write to a@b.org or c@d.org", "a call to +49 30 901820", "from 192.0.2.1 with love"]
    Path("train.txt").write_text("\n".join([*lines, "nothing"]) + "\n")
    personal = {"email": "replace", "phone_number": "drop", "placeholders": {"email": ""}}
    filters = {"personal_data": personal, "quality": {"rules": {"min_words": 2}}}
    train = build(files("train.txt", filters=filters))["train"]
    assert train == ["write to  or ", "from 192.0.2.1 with love"]
    assert described("train")["filters"]["personal_data"] == 1
    assert described("train")["filters"]["quality"] == 1
    rules = described("train")["rules"]
    assert rules["personal_data.email"] == {"documents": 1, "characters": 14, "samples": []}
    assert rules["personal_data.phone_number"] == {
        **{"documents": 1, "characters": len(lines[1]), "samples": []}
    }
    assert "personal_data.ip_address" not in rules


def test_time_grows_with_the_text_and_no_faster():
    on = dict.fromkeys(KINDS, "replace")
    settings = resolve({"corpus": {"filters": {"personal_data": on}}})["corpus"]["filters"]
    patterns = PersonalData(settings["personal_data"])
    start = time.process_time()
    for text in ("a.", "a@a.", "1.", "1", "+1 ", "(1", "ab12:", "0", "00-"):
        patterns.judged(text * 60_000 + "@.:", {})
    # Quadratic, any of these would take hours.
    assert time.process_time() - start < 60
