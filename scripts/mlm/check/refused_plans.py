"""What is refused before the first job: all that would make a job fail after hours of work."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlm.config.overlays import REPLACE, read_overlay
from mlm.evaluation.minimal_pair_files import read_pair_files
from mlm.foundations.atomic import write_text
from mlm.foundations.environment import check_environment
from mlm.foundations.errors import MlmError
from mlm.preflight.compiler import require_compilers

#: The names of the overlays of the last run in this directory.
_OVERLAYS = Path("results/configuration.yaml")
#: Results that cost most, or from which all others follow.
_COSTLY = ("results/corpus/", "results/tokenizer/", "results/runs/")
_ENDINGS = (".parquet", "tokenizer.json", "model.safetensors")


def check_before_work(jobs: Sequence[Any], targets: Iterable[str], here: bool) -> None:
    """Raise MlmError if one of `jobs`, Snakemake's, would fail. `targets` are those of the
    preflight; `here`: the jobs run on this machine, in the environment of this process."""
    rules: Collection[str] = {job.rule.name for job in jobs}
    read_pair_files(path for job in jobs for path in job.input.get("pairs", []))
    if here:
        check_environment()
    if "compile_train_step" in rules and here:
        require_compilers(targets)
    if any(rule.startswith("publish_") for rule in rules):
        from mlm.publishing.uploads import token_from_environment

        token_from_environment()


def guard_results(jobs: Iterable[Any], overlays: Iterable[Path], options: Mapping) -> None:
    """Remember the `overlays` of this run. Raises MlmError if `jobs`, Snakemake's, would replace a
    corpus, tokenizer or model that was made with overlays of other names, unless `options`, of
    --config, allow it."""
    names = sorted(path.name for path in overlays)
    outputs = (str(path) for job in jobs for path in job.output)
    costly = sorted(p for p in outputs if p.startswith(_COSTLY) and p.endswith(_ENDINGS))
    # A check, a preflight or a report alone is not what the results were made with.
    if not costly:
        return
    replaced = [path for path in costly if Path(path).is_file()]
    before = sorted(read_overlay(_OVERLAYS)["overlays"]) if _OVERLAYS.is_file() else names
    allowed = str(options.get(REPLACE, "")).lower() == "true"
    if replaced and before != names and not allowed:
        others = f" and {len(replaced) - 1} more" if len(replaced) > 1 else ""
        raise MlmError(
            f"The results here were made with --configfile {' '.join(before) or '(none)'}; this "
            f"command has {' '.join(names) or '(none)'} and would replace them ({replaced[0]}"
            f"{others}). Name the same files to go on with these results, work elsewhere "
            "(--directory my-project), or replace them: --config replace=true"
        )
    write_text(_OVERLAYS, f"# Of the last run here.\noverlays: {json.dumps(names)}\n")
