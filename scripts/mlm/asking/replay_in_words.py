"""A replay for people, in lines for the terminal."""

from collections.abc import Iterator

from mlm.asking.answer import Answer
from mlm.asking.in_words import counted
from mlm.asking.replayed import Asked, Replay, ReplayedToken, not_looked_at
from mlm.foundations.errors import on_one_line


def replay_in_words(replay: Replay, answer: Answer) -> str:
    """`replay` as text that ends without a line feed."""
    steps = counted(replay.step - replay.begun_at, "step")
    place = replay.state or "the initial weights"
    lines = [
        f"Step {replay.step:,} made again, {steps} from {place}: its loss was {replay.loss:.6f}, "
        f"the mean over its {replay.samples:,} samples.",
        *_log(replay),
    ]
    if unseen := not_looked_at(answer):
        lines.append(unseen)
    for use in replay.uses:
        number = f"Passage {use.passage + 1}, sample" if len(answer.passages) > 1 else "Sample"
        if not use.tokens:
            lines.append(f"{number} {use.sample:,}: none of its tokens was asked for.")
            continue
        lines.append(f"{number} {use.sample:,}, as it was shown to step {replay.step:,}:")
        for token in use.tokens:
            lines += _token(token, replay)
    return "\n".join(lines)


def _log(replay: Replay) -> Iterator[str]:
    """Whether the log says the same."""
    others = [row for row in replay.log if not row.same]
    if others:
        yield (
            f"The log says otherwise: {others[0].logged:.6f} at step {others[0].step:,}, where "
            f"{others[0].replayed:.6f} was found. This machine adds up otherwise than the one that "
            "trained, and the figures are near those of the training, no more."
        )
    elif not replay.log:
        yield "No row of the log ends on the way, to compare with."
    else:
        rows = f"All {len(replay.log):,} rows" if len(replay.log) > 1 else "The one row"
        yield f"{rows} of the log on the way had the same loss."


def _token(one: ReplayedToken, replay: Replay) -> Iterator[str]:
    shown = "itself" if one.masked.kind == "itself" else one.masked.shown
    yield f"  {on_one_line(one.token.text)} → {on_one_line(shown)}"
    yield f"    before step {replay.step:,}: {_asked(one.before)}"
    if one.last is not None:
        yield f"    after step {replay.last_step:,}: {_asked(one.last)}"


def _asked(asked: Asked) -> str:
    first = ", ".join(f"“{on_one_line(g.text)}” {100 * g.probability:.1f} %" for g in asked.first)
    return f"loss {asked.loss:.3f}; {first}"
