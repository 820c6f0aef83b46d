"""Answers for people, in lines for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from mlm.asking.answer import Answer, Passage, not_looked_at
from mlm.asking.forgetting import Forgetting
from mlm.asking.passages import Masked, Part
from mlm.asking.past_run import TrainingSoFar
from mlm.asking.replay import Replay
from mlm.foundations.errors import on_one_line
from mlm.foundations.phrasing import plural

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


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _found(answer: Answer) -> str:
    if answer.exact:
        more = answer.found - len(answer.passages)
        left_out = f"; {more:,} more with --most {answer.found}" if more else ""
        return f"The sentence occurs in the corpus {_times(answer.found)}{left_out}."
    if not answer.passages:
        return "The sentence does not occur in the corpus, and no passage is near it."
    return "The sentence does not occur in the corpus. The nearest passages:"


def _all_so_far(answer: Answer) -> Iterator[str]:
    """How often the tokens of several passages together were asked for."""
    parts = [part for passage in answer.passages for part in passage.parts]
    used = [use for part in parts for use in part.uses if use.reached]
    masked = [m for use in used for m in use.masked]
    if len(answer.passages) > 1 and used:
        times = plural(len({use.step for use in used}), "step")
        yield (
            f"Those below were used at {times} so far, and tokens of them asked for "
            f"{_times(len(masked))}{f': {_kinds(masked)}' if masked else ''}."
        )


def _passage(number: int, passage: Passage, answer: Answer) -> Iterator[str]:
    source = on_one_line(passage.source)
    yield f"{number}. In document {passage.document:,} of {passage.split} ({source})"
    if not answer.exact:
        yield f"   “{on_one_line(passage.text)}”: {passage.shared} of {answer.words} words"
    if passage.split != "train":
        yield f"   Never trained on: the {passage.split} split is held out."
    told = []
    for part in passage.parts:
        yield from (f"   {line}" for line in _part(part, passage.split))
        masked = [m for use in part.uses if use.reached for m in use.masked]
        for token in part.tokens:
            if of_token := [m for m in masked if m.place == token.place]:
                told.append(f"{on_one_line(token.text)} ({_kinds(of_token)})")
    if told:
        yield f"   Asked for so far: {'; '.join(told)}"


def _part(part: Part, split: str) -> Iterator[str]:
    first, last = part.tokens[0], part.tokens[-1]
    places = f"tokens {first.place} to {last.place}" if last != first else f"token {first.place}"
    yield (
        f"Sample {part.sample:,}, which is {part.shard_sample:,} in {part.shard}: {places}, "
        f"“{on_one_line(' '.join(t.text for t in part.tokens))}”"
    )
    for use in part.uses:
        far = "" if use.reached else " (not reached)"
        yield f"  step {use.step:,}, epoch {use.epoch}{far}: {_masked(part, use.masked)}"
    if part.left_out:
        yield "  left out of this run (pretraining.forget): a hole stood in its place"
    elif split == "train" and not part.uses:
        yield "  used at no step"


def _masked(part: Part, masked: Sequence[Masked]) -> str:
    texts = {token.place: token.text for token in part.tokens}
    shown = (f"{texts[m.place]} → {'itself' if m.kind == 'itself' else m.shown}" for m in masked)
    return on_one_line(", ".join(shown)) or "none of them asked for"


def _kinds(masked: Sequence[Masked]) -> str:
    counts = Counter(m.kind for m in masked)
    return ", ".join(f"{counts[kind]:,} {how}" for kind, how in _KINDS.items() if counts[kind])


def forgetting_in_words(answer: Forgetting) -> str:
    """`answer` as text that ends without a line feed."""
    share = 100 * answer.tokens / max(answer.of_tokens, 1)
    lines = [
        training_in_words(answer.run, answer.training),
        f"To be forgotten: {plural(answer.documents, 'document')} of {answer.of_documents:,}, "
        f"{plural(answer.tokens, 'token')} ({share:.2g} %), in "
        f"{plural(answer.samples, 'sample')}.",
    ]
    for one in answer.left_out if len(answer.left_out) > 1 else ():
        documents, tokens = plural(one.documents, "document"), plural(one.tokens, "token")
        lines.append(f"  {on_one_line(one.what)}: {documents}, {tokens}")
    lines += _depends(answer)
    if answer.configuration is not None:
        begun = "A run without it, in an overlay to give to snakemake beside the others:"
        lines += [begun, "", answer.configuration]
    return "\n".join([*lines, "", *answer.notes])


def _depends(answer: Forgetting) -> Iterator[str]:
    first = answer.first_step
    if first is None:
        yield "No step of this run uses it: its weights do not depend on it."
    elif not first:
        yield "The weights depend on it from the beginning, before step 1."
    else:
        far = "" if first <= answer.training.reached else ", which is not reached yet"
        yield f"The weights depend on it from step {first:,} on{far}."
        if answer.go_on_from is not None:
            run, step = answer.go_on_from
            yield f"The last saved state before that is that of run {run} after step {step:,}."
            return
        kept = ", ".join(f"{step:,}" for step in answer.states) or "none"
        yield (
            f"No saved state is from before that (states that are left: {kept}), so that a run "
            "without it begins at its first step."
        )
        if first > 1:
            yield (
                f"pretraining.checkpoint.keep_steps: [{first - 1}] would keep the state that it "
                "could have gone on from."
            )


def replay_in_words(replay: Replay, answer: Answer) -> str:
    """`replay` as text that ends without a line feed."""
    steps = plural(replay.step - replay.begun_at, "step")
    lines = [
        f"Step {replay.step:,} made again, {steps} from {replay.state or 'the initial weights'}: "
        f"its loss was {replay.loss:.6f}, the mean over its {replay.samples:,} samples."
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
