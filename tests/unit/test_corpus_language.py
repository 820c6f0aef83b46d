import struct
from pathlib import Path

import pytest
from corpus_files import build, described, files

from mlm.corpus import language
from mlm.foundations.errors import MlmError

#: What the model knows: words by language, two of them in both.
WORDS = {"en": ["the", "of"], "de": ["der", "und"], "": ["in", "so"]}


def model(path: Path, *, kind: int = 3, file_version: int = 12, small: bool = False) -> str:
    """A classifier of English and German in fastText's format, by the words above."""
    words = [word for own in WORDS.values() for word in own]
    # dim, ws, epoch, minCount, neg, wordNgrams, loss (softmax), model, bucket, minn, maxn, rate
    head = struct.pack("<2i", 793712314, file_version)
    head += struct.pack("<12id", 2, 5, 1, 1, 5, 1, 3, kind, 0, 0, 0, 100, 1e-4)
    head += struct.pack("<3i2q", len(words) + 2, len(words), 2, 100, -1)
    for name, of_label in [*((word, 0) for word in words), ("__label__en", 1), ("__label__de", 1)]:
        head += name.encode() + b"\0" + struct.pack("<qb", 5, of_label)
    vectors = [[3.0 * (name == label) for label in ("en", "de")] for name in WORDS for _ in (0, 1)]
    if small:
        # Quantised, as in an .ftz: a byte for each row, and the 256 vectors that it may stand for.
        table = [*map(list, {tuple(row): None for row in vectors})]
        codes = bytes(table.index(row) for row in vectors)
        head += struct.pack("<2?2qi", True, False, len(words), 2, len(codes)) + codes
        head += struct.pack("<4i", 2, 1, 2, 2)
        vectors = table + [[0.0, 0.0]] * (256 - len(table))
    else:
        head += struct.pack("<?2q", False, len(words), 2)
    outer = struct.pack("<?2q", False, 2, 2) + struct.pack("<4f", 1, 0, 0, 1)
    path.write_bytes(head + b"".join(struct.pack("<2f", *row) for row in vectors) + outer)
    return str(path)


def settings(path: str, **more) -> dict:
    return {"model": path, "keep": ["en"], "min_probability": 0.65} | more


@pytest.mark.parametrize("small", [False, True])
def test_documents_of_other_languages_are_left_out_and_counted(here, small):
    # exp(3) to 1 for English; exp(0.6) to 1, or 0.646; exp(1.5) to 1, or 0.82; German.
    Path("train.txt").write_text("the of\nthe in so in so\nthe in\nder und\n")
    own = {"language": settings(model(Path("m.bin"), small=small))}
    section = files("train.txt", filters=own)
    for split in ("validation", "test"):
        Path(f"{split}.txt").write_text(f"of the of {split}\n")
    assert build(section)["train"] == ["the of", "the in"]
    assert described("train")["filters"]["language"] == 2
    rules = described("train")["rules"]
    assert rules["language.min_probability"]["samples"] == ["the in so in so"]
    assert rules["language.keep"] == {"documents": 1, "characters": 7, "samples": ["der und"]}
    own["language"]["min_probability"] = 0.83
    assert build(section)["train"] == ["the of"]
    own["language"]["keep"] = ["fr"]
    with pytest.raises(MlmError, match="knows no language 'fr'; it has 2, among them de, en"):
        build(section)


def test_what_is_no_whole_model_is_refused_before_the_library_sees_it(tmp_path):
    """The library would read on behind the end, and take all memory."""
    path = Path(model(tmp_path / "m.bin"))
    whole = path.read_bytes()
    others = [Path(model(path, **own)).read_bytes() for own in ({"kind": 2}, {"file_version": 13})]
    damaged = [b"", whole[:70], whole[:-9], whole + b"x", whole[:120] + b"\xff" * 80]
    for content in (*others, *damaged, b"<html>" + b" " * 90):
        path.write_bytes(content)
        with pytest.raises(MlmError, match="is no whole model of languages"):
            language.Language(settings(str(path)))


def test_a_missing_library_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MlmError, match="pip install --require-hashes -r envs/requirements-lang"):
        language.Language(settings(model(tmp_path / "m.bin")))
    assert (Path(__file__).parents[2] / "envs/requirements-language.txt").exists()
