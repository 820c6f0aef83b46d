import struct
from pathlib import Path

from corpus_files import build, described, files
from tests.conftest import refusal

from mlm.config.filters import LanguageFilter
from mlm.corpus.filters import Language

#: What the model knows: words by language, three of them (one the end of a line) in both.
WORDS = {"en": ["the", "of"], "de": ["der", "und"], "": ["in", "so", "</s>"]}


def model(path: Path, kind: int = 3) -> str:
    """A classifier of English and German in fastText's format, by the words above."""
    words = [word for own in WORDS.values() for word in own]
    # dim, ws, epoch, minCount, neg, wordNgrams, loss (softmax), model, bucket, minn, maxn, rate
    content = struct.pack("<2i", 793712314, 12)
    content += struct.pack("<12id", 2, 5, 1, 1, 5, 1, 3, kind, 0, 0, 0, 100, 1e-4)
    content += struct.pack("<3i2q", len(words) + 2, len(words), 2, 100, -1)
    for name, of_label in [*((word, 0) for word in words), ("__label__en", 1), ("__label__de", 1)]:
        content += name.encode() + b"\0" + struct.pack("<qb", 5, of_label)
    content += struct.pack("<?2q", False, len(words), 2)
    for language, own in WORDS.items():
        for _ in own:
            content += struct.pack("<2f", *(3.0 * (language == label) for label in ("en", "de")))
    path.write_bytes(content + struct.pack("<?2q", False, 2, 2) + struct.pack("<4f", 1, 0, 0, 1))
    return str(path)


def settings(path: str, **more) -> dict:
    return {"model": path, "keep": ["en"], "min_probability": 0.65} | more


def test_documents_of_other_languages_are_left_out_and_counted(here):
    # With the end of the line: exp(2) to 1 for English; exp(0.5) to 1; exp(1) to 1; German.
    Path("train.txt").write_text("the of\nthe in so in so\nthe in\nder und\n")
    own = {"language": settings(model(Path("m.bin")))}
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
    assert "no language 'fr'; it has 2, among them de, en" in refusal(build, section)


def refused(path: str | Path) -> str:
    return refusal(Language, LanguageFilter(**settings(str(path))))


def test_what_is_no_model_and_a_missing_library_are_told(tmp_path, monkeypatch):
    path = tmp_path / "m.bin"
    for content in (b"", b"<html>" + b" " * 90, Path(model(path, kind=2)).read_bytes()):
        path.write_bytes(content)
        assert "corpus.filters.language.model" in refusal(
            Language, LanguageFilter(**settings(str(path)))
        )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "envs/requirements-language.txt" in refusal(
        Language, LanguageFilter(**settings(model(path)))
    )
    assert (Path(__file__).parents[2] / "envs/requirements-language.txt").exists()
