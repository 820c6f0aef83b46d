"""The answer that opens the report and ends a run: is the model good, and what to do next?"""

from collections.abc import Iterator
from dataclasses import dataclass

from mlm.evaluation.artefacts import Tone
from mlm.evaluation.verdicts import FEW_CLUSTERS, MEMORISED, SEEN
from mlm.foundations.terminal import plural
from mlm.report.report_inputs import Results, RunResults
from mlm.report.run_comparison import best_run

#: A validation loss that moves by more than this share of it is still falling at the end (over the
#: last quarter of the training), or rose again (above its lowest).
_MOVED = 0.01
#: A model whose loss is higher by more than this share of a baseline's is far behind.
_FAR = 0.1
#: A larger share of unknown tokens spoils a training and its figures.
_UNKNOWN = 0.01
#: With so much of the test text in train, its figures are worth little.
_MUCH = 10 * SEEN
_GO_ON = (
    "Nothing here asks for a remedy: try it on a task (snakemake finetune), or train a larger "
    "model (model.config)."
)
_STANDING = {"better": "better than", "even": "not shown to be better than", "worse": "worse than"}


@dataclass(frozen=True)
class Answer:
    """How the best run stands to the best baseline, and what to do next, the most urgent first."""

    tone: Tone
    verdict: str
    next_steps: list[str]

    def __str__(self) -> str:
        """The answer in one line."""
        return f"{self.verdict} {self.next_steps[0]}"


def answer(results: Results) -> Answer:
    """The answer on the best run of `results`."""
    best, runs = best_run(results), len(results.runs)
    model, baselines = best.evaluation.test, best.evaluation.baselines
    name, baseline = min(baselines.items(), key=lambda entry: entry[1].loss)
    counting = "counting words" if name == "unigram" else "counting neighbours"
    tone = baseline.loss_difference.tone()
    fewer_right = baseline.accuracy_difference.tone(higher_is_better=True) == "worse"
    mixed = fewer_right and tone == "better"
    standing = f"The best of {runs} runs, {best.name}, is {_STANDING[tone]}"
    verdict = (
        f"{standing if runs > 1 else _STANDING[tone].capitalize()} {counting} "
        f"({model.loss:.2f} against {baseline.loss:.2f} nats), {'but only ' if mixed else ''}"
        f"{100 * model.accuracy:.0f} % of hidden word pieces right"
    )
    if fewer_right:
        verdict += f" (counting: {100 * baseline.accuracy:.0f} %)"
    overlap = results.corpus["test"].overlap_with_train
    seen = (overlap and overlap.is_measured and overlap.share) or 0
    flattered = (
        f"{100 * seen:.1f} % of the test text is in train too, which flatters the figures: set "
        "corpus.group_by or corpus.filters.decontamination."
    )
    steps = [flattered] * (seen > _MUCH)
    steps += _of_training(best, far=model.loss > (1 + _FAR) * baseline.loss, ahead=tone == "better")
    steps += [flattered] * (SEEN < seen <= _MUCH)
    groups, by = plural(model.num_clusters, "group"), best.evaluation.cluster_by
    if model.num_clusters < FEW_CLUSTERS or by == "sample":
        groups = "one group" if by == "sample" else f"{groups} ({by})"
        few = f"The test text has {groups}, too few to be sure: hold out more (corpus.held_out)."
        steps.append(few)
    return Answer("even" if mixed else tone, f"{verdict}.", steps or [_GO_ON])


def _of_training(run: RunResults, far: bool, ahead: bool) -> Iterator[str]:
    """Yield what would improve the model of `run`, which is `ahead` of counting or `far` behind."""
    test, train, gap = run.evaluation.test, run.evaluation.train, run.evaluation.gap_to_train
    unknown = max(test.unknown_share, train.unknown_share)
    if unknown > _UNKNOWN:
        yield (
            f"{100 * unknown:.1f} % of the tokens are unknown to the tokenizer: set "
            "tokenizer.character_coverage: 1, or choose a tokenizer made for such text."
        )
    steps, losses = run.curve("validation_loss")
    earlier = [x for step, x in zip(steps, losses, strict=True) if step <= 0.75 * steps[-1]]
    lowest = min(losses, default=0)
    if gap.tone() == "worse" and gap.value > MEMORISED * test.loss:
        yield (
            f"It remembers its training text (loss {train.loss:.2f} there, {test.loss:.2f} on "
            "test): give it more text rather than more steps."
        )
    elif losses and losses[-1] > (1 + _MOVED) * lowest:
        yield (
            f"Validation loss rose again after step {steps[losses.index(lowest)]:.0f}: train for "
            "fewer steps (pretraining.steps), or on more text."
        )
    elif losses and losses[-1] < (1 - _MOVED) * (earlier or losses)[-1]:
        much = "much " if far else ""
        yield (
            "Validation loss was still falling when training ended: train "
            f"{much}longer (pretraining.epochs)."
        )
    elif not ahead:
        yield (
            f"{'Counting is far ahead' if far else 'Counting does as well'}: train longer, raise "
            "pretraining.optimizer.learning_rate, or take a larger model (model.config)."
        )
