"""What a training reads, by the configuration of today and in the places where stages write."""

from dataclasses import replace
from pathlib import Path

from mlm.config.resolution import RunConfiguration, Settings
from mlm.foundations.errors import SAME_COMMAND, MlmError
from mlm.samples.artefacts import HolesOfRun
from mlm.training.run import RunFiles

RESULTS = Path("results")


def configuration_of(settings: Settings, run: str) -> RunConfiguration:
    """The configuration of the training of `run`; MlmError if its file of holes does not fit."""
    own = RunConfiguration.of(settings, run)
    parent, forget = own.pretraining.continue_from.run, own.pretraining.forget
    holes = RESULTS / "holes" / f"{run}.json"
    made_for = [o.what for o in HolesOfRun.read(holes).forget] if forget and holes.exists() else []
    if made_for != forget:
        found = f"was made from {made_for}" if made_for else "is not there yet"
        raise MlmError(
            f"{holes}: {found}, and pretraining.forget of run {run} is {forget}. Ask with the list "
            f"that it was trained with, or have it made: {SAME_COMMAND} {holes}"
        )
    return own.with_values(
        parent=configuration_of(settings, parent) if parent else None,
        holes=str(holes) if forget else None,
    )


def files_of_training() -> RunFiles:
    """What a training reads, in the places where its stages write."""
    manifests = {s: str(RESULTS / "manifests" / f"{s}.json") for s in ("train", "validation")}
    return RunFiles(str(RESULTS / "tokenizer" / "tokenizer.json"), manifests)


def files_there() -> RunFiles:
    """`files_of_training`, with the test split's manifest if it is there; MlmError if one of the
    others is missing."""
    files, test = files_of_training(), RESULTS / "manifests" / "test.json"
    if missing := [f for f in (files.tokenizer, *files.manifests.values()) if not Path(f).exists()]:
        raise MlmError(
            f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
            f"is shown. To have it made: {SAME_COMMAND} {' '.join(missing)}"
        )
    if test.exists():
        files = replace(files, manifests=files.manifests | {"test": str(test)})
    return files
