import time
from pathlib import Path

import pytest
from corpus_files import build, described, files

from mlm.config.resolution import resolve
from mlm.corpus.personal_data import PersonalData

FOUND = {
    "email": ["a@b.org", "first.last+tag@mail.example.co.uk", "x_1%y@a-b.museum"],
    "ip_address": [
        *("192.0.2.1", "255.255.255.255", "2001:db8::1", "fe80::1"),
        "2001:0db8:0000:0000:0000:ff00:0042:8329",
    ],
    "phone_number": [
        *("+49 30 901820", "+44 (0)20 7946 0958", "0049-30-901820", "(202) 555-0143"),
        *("202-555-0143", "202.555.0143", "+1 202 555 0143"),
    ],
}
NOT_FOUND = {
    "email": ["a@b", "@handle", "a @ b.org", "a@b.c"],
    "ip_address": [
        *("256.1.1.1", "1.2.3", "1.2.3.4.5", "12:30:45", "std::vector", "1999:30", "v1.2.3.4"),
        *("2001:db8", "1234:5678:9abc", "dead::beef::cafe"),
    ],
    "phone_number": [
        *("1914-1918", "100,000", "+5 percent", "12-345-6789", "202-555-01435", "2024-10-11"),
        *("1234567890123", "+1234567890123456", "978-0-306-40615-7"),
    ],
}


def rules(**actions) -> PersonalData:
    settings = resolve({"corpus": {"filters": {"personal_data": actions}}})
    return PersonalData(settings["corpus"]["filters"]["personal_data"])


@pytest.mark.parametrize("kind", FOUND)
def test_addresses_and_numbers_are_found_and_nothing_else(kind):
    patterns, placeholder = rules(**{kind: "replace"}), f"<{kind.replace('_', '-')}>"
    for text in FOUND[kind]:
        assert patterns.judged(f"At {text}.", {}) == (f"At {placeholder}.", None), text
    for text in NOT_FOUND[kind]:
        assert patterns.judged(f"At {text}.", {}) == (f"At {text}.", None), text


def test_what_is_replaced_or_dropped_is_counted_and_shown_nowhere(here):
    lines = ["write to a@b.org or c@d.org", "a call to +49 30 901820", "from 192.0.2.1 with love"]
    Path("train.txt").write_text("\n".join([*lines, "nothing"]) + "\n")
    personal = {"email": "replace", "phone_number": "drop", "placeholders": {"email": ""}}
    filters = {"personal_data": personal, "quality": {"rules": {"min_words": 2}}}
    train = build(files("train.txt", filters=filters))["train"]
    assert train == ["write to  or ", "from 192.0.2.1 with love"]
    counts, taken = described("train")["filters"], described("train")["rules"]
    assert (counts["personal_data"], counts["quality"]) == (1, 1)
    assert taken["personal_data.email"] == {"documents": 1, "characters": 14, "samples": []}
    assert taken["personal_data.phone_number"]["characters"] == len(lines[1])
    assert "personal_data.ip_address" not in taken


def test_time_grows_with_the_text_and_no_faster():
    patterns = rules(**dict.fromkeys(FOUND, "replace"))
    start = time.process_time()
    for text in ("a.", "a@a.", "1.", "1", "+1 ", "(1", "ab12:", "0", "00-"):
        patterns.judged(text * 60_000 + "@.:", {})
    # Quadratic, any of these would take hours.
    assert time.process_time() - start < 60
