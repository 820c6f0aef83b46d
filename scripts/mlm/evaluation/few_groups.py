"""Few groups make intervals too narrow, and that is said beside them."""

from mlm.evaluation.artefacts import Verdict

#: With fewer groups, intervals that resample them are too narrow (Cameron, Gelbach and Miller,
#: "Bootstrap-based improvements for inference with clustered errors", 2008).
FEW_GROUPS = 20


def on_few_groups(group_by: str | None, num_groups: int) -> Verdict | None:
    """A warning if the test text has few groups (by `group_by`) or one."""
    if num_groups == 1:
        text = (
            f"One group: the whole test text is of one {group_by}, so that single samples are "
            "resampled; the intervals say nothing of other texts."
        )
    elif num_groups < FEW_GROUPS:
        text = (
            f"Few groups: the intervals resample the {num_groups} groups ({group_by}) of the test "
            f"text; with fewer than {FEW_GROUPS} they are optimistic (too narrow)."
        )
    else:
        return None
    return Verdict("even", text)


def with_few_groups(interval: str, groups: int, rows: int) -> str:
    """`interval`, in words, warned of if its `groups`, or `rows` without any, are few."""
    number, what = (groups, "groups") if groups else (rows, "rows")
    if number >= FEW_GROUPS:
        return interval
    return f"{interval}, too narrow because from only {number} {what}"
