"""An answer for people, in lines for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from mlm.asking.answer import (
    Answer,
    Forgetting,
    Masked,
    Part,
    Passage,
    Replay,
    Token,
    TrainingSoFar,
    not_looked_at,
)
from mlm.foundations.errors import on_one_line

_KINDS = {"mask": "hidden", "random": "another in its place", "itself": "left to see"}


def in_words(answer: Answer) -> str:
    """`answer` as text that ends without a line feed."""
    lines = [training_in_words(answer.run, answer.training), _found(answer), *_all_so_far(answer)]
    for number, passage in enumerate(answer.passages, start=1):
        lines += ["", *_passage(number, passage, answer)]
    if answer.notes:
        lines += ["", *answer.notes]
    return "\n".join(lines)


def training_in_words(run: str, training: TrainingSoFar) -> str:
    """How far the training of `run` is known to be, in a sentence."""
    size = f"{training.steps:,} steps of {training.samples_per_step:,} samples"
    if training.state == "finished":
        return f"Run {run}: trained to its end, {size}."
    if training.state == "under way":
        return (
            f"Run {run}: has made {training.reached:,} of {size} by its last saved state, "
            f"{training.record}."
        )
    return f"Run {run}: no training of it is known. It would make {size}."


def _found(answer: Answer) -> str:
    if answer.exact:
        of_shards = answer.passages[0].document is None
        place = "the shards" if of_shards else "the corpus"
        times = _times(answer.found)
        more = answer.found - len(answer.passages)
        left_out = f"; {more:,} more with --most {answer.found}" if more else ""
        return f"The sentence stands in {place} {times}{left_out}."
    if not answer.passages:
        return "The sentence stands nowhere, and nothing near it was found."
    return "The sentence stands nowhere in the corpus. Nearest to it:"


def _passage(number: int, passage: Passage, answer: Answer) -> Iterator[str]:
    where = "" if passage.document is None else f"document {passage.document:,} of "
    source = f" ({on_one_line(passage.source)})" if passage.source else ""
    yield f"{number}. In {where}{passage.split}{source}"
    if not answer.exact:
        yield f"   “{on_one_line(passage.text)}”: {passage.shared} of {answer.words} words"
    if passage.split != "train":
        yield f"   Never trained on: the {passage.split} split is held out."
    for part in passage.parts:
        yield from (f"   {line}" for line in _part(part, passage.split))
    yield from (f"   {line}" for line in _so_far(passage))


def _part(part: Part, split: str) -> Iterator[str]:
    first, last = part.tokens[0], part.tokens[-1]
    places = f"tokens {first.place} to {last.place}" if last != first else f"token {first.place}"
    yield (
        f"Sample {part.sample:,}, which is {part.shard_sample:,} in {part.shard}: {places}, "
        f"“{on_one_line(' '.join(t.text for t in part.tokens))}”"
    )
    for use in part.uses:
        shown = _masked(part.tokens, use.masked)
        far = "" if use.reached else " (not reached)"
        yield f"  step {use.step:,}, epoch {use.epoch}{far}: {shown}"
    if part.left_out:
        yield "  left out of this run (pretraining.forget): a hole stood in its place"
    elif split == "train" and not part.uses:
        yield "  used at no step"
    for check in part.checks:
        masked = "" if check.masked is None else f": {_masked(part.tokens, check.masked)}"
        yield f"  looked at {check.where}{masked}"
    if split != "train" and not part.checks:
        yield "  not looked at by validation or evaluation, as far as is known"


def _masked(tokens: tuple[Token, ...], masked: tuple[Masked, ...]) -> str:
    texts = {token.place: token.text for token in tokens}
    return on_one_line(
        ", ".join(
            f"{texts[m.place]} → {m.shown if m.kind != 'itself' else 'itself'}" for m in masked
        )
        or "none of them asked for"
    )


def _so_far(passage: Passage) -> Iterator[str]:
    """How often each token was asked for in the steps that were made."""
    told = []
    for part in passage.parts:
        masked = [m for use in part.uses if use.reached for m in use.masked]
        for token in part.tokens:
            if of_token := [m for m in masked if m.place == token.place]:
                told.append(f"{on_one_line(token.text)} ({_kinds(of_token)})")
    if told:
        yield f"Asked for so far: {'; '.join(told)}"


def _all_so_far(answer: Answer) -> Iterator[str]:
    """The same of several passages together."""
    parts = [part for passage in answer.passages for part in passage.parts]
    uses = {(part.sample, use.step) for part in parts for use in part.uses if use.reached}
    masked = [m for part in parts for use in part.uses if use.reached for m in use.masked]
    if len(answer.passages) > 1 and uses:
        steps = len({step for _, step in uses})
        times = counted(steps, "step")
        yield (
            f"Those below were used at {times} so far, and tokens of them asked for "
            f"{_times(len(masked))}{f': {_kinds(masked)}' if masked else ''}."
        )


def counted(number: int, what: str) -> str:
    """`number` of `what`, a noun in the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _kinds(masked: Sequence[Masked]) -> str:
    counts = Counter(m.kind for m in masked)
    return ", ".join(f"{counts[kind]:,} {how}" for kind, how in _KINDS.items() if counts[kind])


def replay_in_words(replay: Replay, answer: Answer) -> str:
    """`replay` as text that ends without a line feed."""
    steps = counted(replay.step - replay.begun_at, "step")
    lines = [
        f"Step {replay.step:,} made again, {steps} from {replay.state or 'the initial weights'}: "
        f"its loss was {replay.loss:.6f}, the mean over its {replay.samples:,} samples.",
    ]
    if unseen := not_looked_at(answer):
        lines.append(unseen)
    for use in replay.uses:
        number = f"Passage {use.passage + 1}, sample" if len(answer.passages) > 1 else "Sample"
        if not use.tokens:
            lines.append(f"{number} {use.sample:,}: none of its tokens was asked for.")
            continue
        lines.append(
            f"{number} {use.sample:,}, as it was shown to step {replay.step:,}, and the answers "
            "before it:"
        )
        for one in use.tokens:
            shown = "itself" if one.masked.kind == "itself" else one.masked.shown
            first = ", ".join(
                f"“{on_one_line(g.text)}” {100 * g.probability:.1f} %" for g in one.first
            )
            lines.append(
                f"  {on_one_line(f'{one.token.text} → {shown}')}: loss {one.loss:.3f}; {first}"
            )
    return "\n".join(lines)


def forgetting_in_words(answer: Forgetting) -> str:
    """`answer` as text that ends without a line feed."""
    lines = [training_in_words(answer.run, answer.training)]
    share = 100 * answer.tokens / max(answer.of_tokens, 1)
    lines.append(
        f"To be forgotten: {counted(answer.documents, 'document')} of {answer.of_documents:,}, "
        f"{counted(answer.tokens, 'token')} ({share:.2g} %), in "
        f"{counted(answer.samples, 'sample')}."
    )
    if len(answer.left_out) > 1:
        lines += [
            f"  {on_one_line(one.what)}: {counted(one.documents, 'document')}, "
            f"{counted(one.tokens, 'token')}"
            for one in answer.left_out
        ]
    lines += [_depends(answer), *_begins(answer)]
    if answer.configuration is not None:
        lines += ["", answer.configuration]
    return "\n".join([*lines, "", *answer.notes])


def _depends(answer: Forgetting) -> str:
    if answer.first_step is None:
        return "No step of this run uses it: its weights do not depend on it."
    if not answer.first_step:
        return "The weights depend on it from the beginning, before step 1."
    far = "" if answer.first_step <= answer.training.reached else ", which is not reached yet"
    return f"The weights depend on it from step {answer.first_step:,} on{far}."


def _begins(answer: Forgetting) -> list[str]:
    """Where a run without it begins."""
    if answer.first_step is None:
        return []
    begun = "A run without it, in an overlay to give to snakemake beside the others:"
    if answer.go_on_from is not None:
        run, step = answer.go_on_from
        last = f"The last saved state before that is that of run {run} after step {step:,}."
        return [last, begun]
    if not answer.first_step:
        return [begun]
    kept = ", ".join(f"{step:,}" for step in answer.states) or "none"
    lines = [
        f"No saved state is from before that (states that are left: {kept}), so that a run without "
        "it begins at its first step."
    ]
    if answer.first_step > 1:
        lines.append(
            f"pretraining.checkpoint.keep_steps: [{answer.first_step - 1}] would keep the state "
            "that it could have gone on from."
        )
    return [*lines, begun]
