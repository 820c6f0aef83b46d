"""The small run of the training tests in this process, for tests of its step."""

from pathlib import Path

from small_run import small_run, write_inputs


def small_pretraining(
    root: Path, optimizer: str = "muon", accumulated: int = 1, model=(), **pretraining
):
    """A Run of one layer of width 32, on samples of 16 tokens; the rest is of its section,
    and `model` of the section of that name."""
    if not (root / "train.json").exists():
        write_inputs(root)
    how = {"name": optimizer, "gradient_accumulation_steps": accumulated}
    return small_run(root, {"pretraining": {"optimizer": how} | pretraining, "model": dict(model)})[
        0
    ]
