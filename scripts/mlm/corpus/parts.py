"""What the jobs of the corpus read: files by split, or rows of a dataset; light, for Snakemake."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mlm.config.corpus import Corpus, CorpusConfiguration
from mlm.config.fields import SPLITS, wrong_with_file
from mlm.corpus.file_patterns import matched_files
from mlm.corpus.formats import FORMATS, file_format, not_fetched, unknown_format
from mlm.foundations.errors import MlmError, listed

#: Paths by split.
SplitFiles = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Part:
    """The input of one job: of the source (of a mix, by its name) files by split, or one of several
    `shares` of the rows of a dataset."""

    source: str = ""
    files: SplitFiles = field(default_factory=dict)
    share: int = 0
    shares: int = 1

    @property
    def paths(self) -> list[str]:
        """The files of all splits."""
        return [path for paths in self.files.values() for path in paths]


def files_of_sources(corpus: Corpus, note: Callable[[str], None]) -> dict[str, SplitFiles]:
    """Return the files of each source by its name and by split. Raises MlmError with every problem
    of all sources."""
    files, problems = {}, []
    for name, source in corpus.sources().items():
        files[name] = {split: [] for split in SPLITS}
        if source.source != "files":
            continue
        try:
            files[name] = matched_files(source.files, note)
            _check_group_by(source.group_by, files[name])
        except MlmError as error:
            if not name:
                raise
            problems.append(f"corpus.mix.{name}: {error}")
    if problems:
        raise MlmError(f"The sources of the corpus:\n{listed(problems)}")
    return files


def _check_group_by(column: str | None, files: SplitFiles) -> None:
    """Raise MlmError if `corpus.group_by` names a column and one of the files has none."""
    plain = [p for paths in files.values() for p in paths if file_format(p)[0] == "txt"]
    if column is not None and plain:
        *others, last = (f".{ending}" for ending in FORMATS if ending != "txt")
        raise MlmError(
            f"corpus.group_by: {column!r} names a column, and {plain[0]} is a text file without "
            f"columns. Set it to null, or give the text as {', '.join(others)} or {last}"
        )


def planned_parts(
    corpus: Corpus,
    files: Mapping[str, SplitFiles],
    note: Callable[[str], None],
    in_bucket: bool = False,
) -> list[Part]:
    """Return at most `corpus.parts` parts of each source, given its `files` by its name. `note`
    gets a line for each source with fewer. Raises MlmError for more than one part of results
    `in_bucket`."""
    is_mix, count, parts = corpus.source == "mix", corpus.parts, []
    if in_bucket and (is_mix or count > 1):
        raise MlmError(
            f"corpus.{'source: mix' if is_mix else f'parts: {count}'} needs a file system that all "
            "jobs see, and results are to lie in a bucket. Make the corpus where there is one "
            f"(profiles/slurm){'' if is_mix else ', or set it to 1'}"
        )
    for name, source in corpus.sources().items():
        if source.source == "files":
            of_source = [Part(name, some) for some in divided(files[name], count)]
        elif source.source == "hub" and source.group_per is None:
            of_source = [Part(name, share=n, shares=count) for n in range(count)]
        else:
            of_source = [Part(name)]
        if len(of_source) < count:
            note(
                f"corpus.parts: {count}, but the source{name and f' {name}'} is read in "
                f"{len(of_source)}: it cannot be divided further."
            )
        parts += of_source
    return parts


def divided(files: SplitFiles, parts: int) -> list[SplitFiles]:
    """Return `files` in at most `parts` parts of about equal bytes, in their order, none empty."""
    sizes = [(split, p, os.path.getsize(p)) for split, paths in files.items() for p in paths]
    total, offset = sum(size for _, _, size in sizes), 0
    groups: dict[int, dict[str, list[str]]] = {}
    for split, path, size in sizes:
        # By its middle, so that parts of few files are about equal.
        group = groups.setdefault((2 * offset + size) * parts // (2 * total), {})
        group.setdefault(split, []).append(path)
        offset += size
    return list(groups.values())


def filter_files(configuration: CorpusConfiguration) -> list[str]:
    """Return the paths that the filters of all sources name, sorted. Raises MlmError if there is no
    such file."""
    named: dict[str, str] = {}
    for source in configuration.corpus.sources().values():
        filters = source.filters
        if filters.language.model:
            named.setdefault(filters.language.model, "language.model")
        for path in filters.decontamination.against:
            named.setdefault(path, "decontamination.against")
    if table := configuration.texts.finetuning_file:
        named.setdefault(table, "decontamination.also: finetuning (finetune.data.file)")
    problems = [
        f"corpus.filters.{key}: {problem}"
        for path, key in named.items()
        if (
            problem := wrong_with_file(path)
            or not_fetched(path)
            or (key != "language.model" and unknown_format(path))
        )
    ]
    if problems:
        raise MlmError(f"The files of the corpus' filters:\n{listed(problems)}")
    return sorted(named)
