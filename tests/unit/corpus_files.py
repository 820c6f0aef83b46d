"""A corpus built from files in the working directory, and what is said where it is refused."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from tests.conftest import refusal

from mlm.config.configuration import Configuration
from mlm.config.corpus import CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.config.overlays import resolve
from mlm.corpus.artefacts import file_name
from mlm.corpus.corpus_building import build_corpus, read_part
from mlm.corpus.source_files import files_of_sources, planned_parts


def outputs(directory: Path | str = "results/corpus", count: int = 1):
    """The corpus below `directory`: its files and its descriptions, by split."""
    parquet = {split: [str(Path(directory) / f"{split}.parquet")] for split in SPLITS}
    parquet["train"] = [str(Path(directory) / file_name("train", i, count)) for i in range(count)]
    return parquet, {split: str(Path(directory) / f"{split}.json") for split in SPLITS}


def build(corpus: dict, seed: int = 0, directory: Path | str = "results/corpus") -> dict:
    """The documents by split that the configuration's section `corpus` leads to."""
    settings = resolve({"corpus": corpus, "seed": seed})
    parquet, described = outputs(directory, settings.corpus.count)
    build_in_one_job(settings, parquet, described)
    return {
        split: [text for path in paths for text in pq.read_table(path)["text"].to_pylist()]
        for split, paths in parquet.items()
    }


def build_in_one_job(settings: Configuration, parquet: dict, described: dict) -> None:
    """What rule `corpus` does."""
    configuration = CorpusConfiguration.of(settings.corpus, settings.seed)
    parts = planned_parts(configuration.corpus, files_of_sources(configuration.corpus))
    build_corpus(configuration, parts, parquet, described)


def in_parts(directory: Path, settings: Configuration, parts: int) -> int:
    """What rule `corpus` and the jobs of `corpus_read` do; how many of these there were."""
    configuration = CorpusConfiguration.of(settings.corpus, settings.seed)
    section = settings.corpus.model_copy(update={"parts": parts})
    planned = planned_parts(section, files_of_sources(configuration.corpus))
    records = [directory / f"parts/{number}.json" for number in range(len(planned))]
    for part, record in zip(planned, records, strict=True):
        read_part(configuration, part, record)
    made = outputs(directory, settings.corpus.count)
    build_corpus(configuration, planned, *made, records, 2)
    return len(planned)


def content(directory: Path) -> dict[str, bytes]:
    """The files in `directory` by name."""
    return {file.name: file.read_bytes() for file in directory.glob("*") if file.is_file()}


def described(split: str, directory: Path | str = "results/corpus") -> dict:
    return json.loads((Path(directory) / f"{split}.json").read_text(encoding="utf-8"))


def from_files(directory: Path, texts: dict[str, list[str]], **filters) -> dict:
    """A section `corpus` with `texts` by split, one document a line."""
    for split, lines in texts.items():
        content = "".join(line + "\n" for line in lines)
        (directory / f"{split}.txt").write_text(content, encoding="utf-8")
    files = {split: [str(directory / f"{split}.txt")] for split in texts}
    held_out = {"validation": 0.25, "test": 0.25}
    return {"source": "files", "files": files, "held_out": held_out, "filters": filters}


def files(train="train.*", **more) -> dict:
    """A section `corpus` with three files, of which validation and test are fixed."""
    Path("validation.txt").write_text("a validation document\n", encoding="utf-8")
    Path("test.txt").write_text("a test document\n", encoding="utf-8")
    named = {"train": [train], "validation": ["validation.txt"], "test": ["test.txt"]}
    own = more.pop("files", {})
    return {"source": "files", "files": named | own, **more}


def refused(corpus: dict) -> str:
    """The message of the refusal; nothing may be left of an output."""
    message = refusal(build, corpus)
    assert not [path for path in Path("results").rglob("*") if path.is_file()]
    return message
