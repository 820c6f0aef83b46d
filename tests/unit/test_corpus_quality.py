import re
from pathlib import Path

import pytest
from corpus_files import build, described, files

from mlm.config.filters import QualityFilter
from mlm.corpus.artefacts import SAMPLE_CHARACTERS, SAMPLES
from mlm.corpus.filters import Quality

ROOT = Path(__file__).parents[2]


def judged(text: str, **on):
    """What is left of `text`, the rule that refuses it, and what was taken by rule."""
    section, taken = QualityFilter(rules=on), {}
    left, rule = Quality(section.limits()).apply(text, taken)
    return left, rule, {name: one.characters for name, one in taken.items()}


def different(count: int) -> str:
    return " ".join(f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(count))


@pytest.mark.parametrize(
    ("rule", "limit", "kept", "left_out"),
    [
        ("min_words", 50, different(50), different(49)),
        ("max_words", 100, different(100), different(101)),
        ("min_mean_word_length", 3, "the and", "the an"),
        ("max_mean_word_length", 10, "abcdefghij", "abcdefghijk"),
        ("max_symbols_per_word", 0.1, different(9) + " #", different(8) + " #"),
        ("max_symbols_per_word", 0.1, different(10) + "...", different(9) + "…"),
        ("max_bullet_lines", 0.9, "- a\n" * 9 + "a", "• a\n" * 10 + "a"),
        ("max_ellipsis_lines", 0.3, "a...\n" * 3 + "b\n" * 7, "a…\n" * 4 + "b\n" * 6),
        ("min_words_with_letter", 0.8, "a b c x1 5", "a b c 4 5"),
        ("min_stop_words", 2, "The dog and cat", "the dog the cat"),
        ("max_duplicate_lines", 0.3, "a\na\n\n" * 1 + "b\nc", "a\na\nb"),
        ("max_duplicate_line_characters", 0.2, "aa\naa\n" + "b" * 10, "aa\naa\nb"),
        ("max_duplicate_paragraphs", 0.3, "a\n\na\n\nb\n\nc", "a\n\na\n\nb"),
        ("max_duplicate_paragraph_characters", 0.2, "aa\n\naa\n\n" + "b" * 10, "aa\n\naa\n\nb"),
        # Twice "a b" is 6 of 30 characters, and of 29.
        ("max_top_2_grams", [0.2, 1, 1], "a b a b " + "x" * 22, "a b a b " + "x" * 21),
        ("max_top_3_grams", [1, 0.2, 1], "a b c a b c " + "x" * 38, "a b c a b c " + "x" * 37),
        (
            "max_top_4_grams",
            [1, 1, 0.2],
            "a b c d a b c d " + "x" * 54,
            "a b c d a b c d " + "x" * 53,
        ),
        *(
            (
                f"max_duplicate_{n}_grams",
                [0.2 if m == n else 1 for m in range(5, 11)],
                # The n words that came before are a fifth of all, and then more.
                f"{different(n)} {different(n)} {'x' * (6 * n * 5 - 14 * n)}",
                f"{different(n)} {different(n)} {'x' * (6 * n * 5 - 14 * n - 1)}",
            )
            for n in range(5, 11)
        ),
        ("lorem_ipsum", True, "Lorem, ipsum.", "Lorem Ipsum."),
        ("curly_bracket", True, "(a}", "a {"),
        ("min_sentences", 3, "One. Two? “Three!”", "One. Two 3.5 x.y?"),
        ("min_sentences", 3, "No end\nof a line\nhere", "No end\nof a line"),
    ],
)
def test_a_rule_takes_what_is_beyond_its_limit_alone(rule, limit, kept, left_out):
    on = {re.sub("_[0-9]+_", "_n_", rule): limit}
    assert judged(kept, **on) == (kept, None, {})
    assert judged(left_out, **on)[1:] == (rule, {f"quality.{rule}": len(left_out)})


@pytest.mark.parametrize(
    ("rule", "limit", "kept", "taken"),
    [
        ("terminal_punctuation", True, ['A "b"', "c?", "d!", "e."], ["f", "g...", "h…", "i:"]),
        ("min_words_in_line", 3, ["a b c"], ["a b"]),
        ("max_word_length", 10, ["abcdefghij a b c d"], ["a abcdefghijk"]),
        ("boilerplate_lines", True, ["Use Java script"], ["Turn JavaScript on.", "We use cookies"]),
    ],
)
def test_lines_are_taken_out_of_a_document(rule, limit, kept, taken):
    text = "\n\n".join([*taken, *kept])
    lost = {f"quality.{rule}": sum(map(len, taken))}
    assert judged(text, **{rule: limit}) == ("\n".join(kept), None, lost)
    cited = judged("A fact.[12] More [edit]\nNone [x]", citations=True)
    assert cited == ("A fact. More \nNone [x]", None, {"quality.citations": len("[12][edit]")})


def test_what_rules_took_is_counted_by_split_with_its_first_texts(here):
    long = "x" * (SAMPLE_CHARACTERS + 1)
    lines = ["one two three", *(f"short{i}" for i in range(SAMPLES + 2)), f"{long} {long} y"]
    Path("train.txt").write_text("\n".join(lines) + "\n")
    quality = {"min_words": 3, "max_mean_word_length": 10}
    found = build(files("train.txt", filters={"quality": {"rules": quality}}))
    assert found["train"] == ["one two three"]
    train = described("train")
    assert train["filters"]["quality"] == SAMPLES + 3
    short, longer = (train["rules"][f"quality.{rule}"] for rule in quality)
    assert (short["documents"], short["characters"]) == (SAMPLES + 2, 6 * (SAMPLES + 2))
    assert short["samples"] == [f"short{i}" for i in range(SAMPLES)]
    assert (longer["characters"], longer["samples"]) == (2 * len(long) + 3, [long[:-1] + "…"])
    assert described("test")["rules"]["quality.min_words"]["documents"] == 0
    build(files("train.txt"))
    assert "rules" not in described("train") and "quality" not in described("train")["filters"]
