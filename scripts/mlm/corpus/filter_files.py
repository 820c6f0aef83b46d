"""Which files of the user's the rules of `corpus.filters` read.

Light on purpose: Snakemake imports it to list them as inputs of the jobs that read them.
"""

from collections.abc import Mapping
from pathlib import Path

from mlm.foundations.errors import MlmError, listed


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
