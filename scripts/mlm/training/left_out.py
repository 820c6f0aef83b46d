"""What a run leaves out of its train split, and the first update for which that matters."""

from mlm.config.resolution import RunConfiguration
from mlm.samples.artefacts import HolesOfRun
from mlm.training.artefacts import WithoutDocuments
from mlm.training.run import Run


def first_difference(one: Run, other: Run) -> int | None:
    """The first update, from 1, in which two runs that differ in their holes alone may differ; 0
    if they begin with other weights, None if no update does."""
    holes = [set(r.plan.holes.spans if r.plan.holes else ()) for r in (one, other)]
    different = holes[0] ^ holes[1]
    if different and one.model.initialisation.embeddings == "cooccurrence":
        return 0
    return one.order_from(0).first_update(one.train, {sample for sample, _, _ in different})


def without_documents(run: Run, config: RunConfiguration) -> WithoutDocuments | None:
    """What `run`, of `config`, leaves out; None if nothing."""
    if config.holes is None:
        return None
    found = HolesOfRun.read(config.holes)
    return WithoutDocuments(
        what=[left_out.what for left_out in found.forget],
        documents=found.documents,
        tokens=found.tokens,
        samples=found.samples,
        first_step=run.order_from(0).first_update(run.train, (s for s, *_ in run.plan.holes.spans)),
        holes=run.plan.holes.sha256,
    )
