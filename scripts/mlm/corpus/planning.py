"""What the jobs of the corpus read, planned from the configuration and the files that are there.

Light on purpose: Snakemake imports it to plan, and no job does.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from mlm.config.fields import SPLITS
from mlm.corpus.file_patterns import check_group_by, matched_files, sections
from mlm.corpus.parts import divided, undivided, whole
from mlm.foundations.errors import MlmError, listed

#: By the name of a source (None: the only one), its files by split.
SourceFiles = dict[str | None, dict[str, list[str]]]


def source_files(corpus: Mapping, note: Callable[[str], None]) -> SourceFiles:
    """The files of each source of the section `corpus`; `note` is told what is read once.

    Raises MlmError with every problem of all sources.
    """
    found: SourceFiles = {}
    problems = []
    for name, section in sections(corpus).items():
        found[name] = {split: [] for split in SPLITS}
        if section["source"] != "files":
            continue
        try:
            found[name] = matched_files({s: section["files"][s] for s in SPLITS}, note)
            check_group_by(section["group_by"], found[name])
        except MlmError as error:
            if name is None:
                raise
            problems.append(f"corpus.mix.{name}: {error}")
    if problems:
        raise MlmError(f"The sources of the corpus:\n{listed(problems)}")
    return found


def planned_parts(corpus: Mapping, files: SourceFiles, note: Callable[[str], None]) -> list[dict]:
    """What each part of the corpus reads: of which source, bytes of files or a share of rows.

    Of a mix, each source is read in so many parts.
    `note` is told what cannot be divided.
    """
    asked, found = corpus["parts"], []
    for name, section in sections(corpus).items():
        of = "" if name is None else f" of {name}"
        own = [{"files": whole(files[name]), "share": [0, 1]}]
        if section["source"] == "files":
            own = [{"files": p, "share": [0, 1]} for p in divided(files[name], section, asked)]
            if asked > 1:
                _tell_undivided(files[name], section, of, note)
        elif section["source"] == "hub" and section["group_per"] is None:
            own = [{"files": {}, "share": [part, asked]} for part in range(asked)]
        if len(own) < asked:
            note(
                f"corpus.parts: {asked}, but the source{of} is read in {len(own)}: it cannot be "
                "divided further."
            )
        for part in own:
            part["files"] = {s: [list(p) for p in pieces] for s, pieces in part["files"].items()}
        found += own if name is None else [part | {"source": name} for part in own]
    return found


def _tell_undivided(
    files: Mapping[str, list[str]], section: Mapping, of: str, note: Callable[[str], None]
) -> None:
    reasons = {path: undivided(path, section) for paths in files.values() for path in paths}
    if whole_files := [path for path, reason in reasons.items() if reason]:
        note(
            f"corpus.parts: {len(whole_files)} of {len(reasons)} files{of} are not divided; the "
            f"first, {whole_files[0]}, {reasons[whole_files[0]]}."
        )


def filter_files(filters: Mapping) -> list[str]:
    """The paths that `filters`, of `file_patterns.corpus_settings`, name.

    Raises MlmError where there is no such file.
    """
    named = [
        ("quality.rules.bad_words", filters["quality"]["bad_words"]),
        ("language.model", filters["language"]["model"]),
        *(("decontamination.against", path) for path in filters["decontamination"]["against"]),
    ]
    if table := filters["decontamination"].get("table"):
        named.append(("decontamination.also: finetuning (finetune.data.file)", table[0]))
    problems = [
        f"corpus.filters.{key}: {path} is {'a directory' if Path(path).is_dir() else 'not there'}; "
        "name a file, relative to the working directory, or leave it out"
        for key, path in named
        if path is not None and not Path(path).is_file()
    ]
    if problems:
        raise MlmError(f"The files of the corpus' filters:\n{listed(problems)}")
    return [path for _, path in named if path is not None]
