"""Section `publish`: what goes to the Hugging Face Hub, when asked."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from mlm.config.fields import Section, Text
from mlm.foundations.errors import MlmError

#: Replaced by the run's name in `publish.model`.
RUN = "{run}"
#: What the Hub takes in no repository's name (huggingface_hub's `validate_repo_id`).
_REFUSED = re.compile(r"--|\.\.|(^|/)[.-]|[.-](/|$)|\.git$")


def _taken_by_hub(name: str) -> str:
    plain = name.replace(RUN, "run")
    if not re.fullmatch(r"[\w.-]+/[\w.-]{1,96}", plain, re.ASCII) or _REFUSED.search(plain):
        raise ValueError(
            f"found {name!r}; the Hub takes owner/name of ASCII letters, digits, -, _, ."
        )
    return name


Repository = Annotated[str, Field(max_length=96), AfterValidator(_taken_by_hub)]


class Publish(Section):
    tokenizer: Repository | None = None
    """Repository, owner/name, of the tokenizer; null: not published."""
    model: Repository | None = None
    """Repository of each run's model, with {run} for its name: me/addresses-{run}."""
    runs: Annotated[list[str], Field(min_length=1)] | None = None
    """Runs whose models are published; null: all."""
    private: bool = True
    """Make repositories private, and publish to no public one. false: new ones are public."""
    license: Text = "other"
    """Licence on the cards, as the Hub names it: apache-2.0, cc-by-4.0, …"""
    language: Text | None = None
    """Language on the cards, such as en; null: none."""
    source: Text | None = None
    """Origin of the text on the cards, in words; null: derived from corpus.source."""

    def clashes(self, runs: Iterable[str]) -> Iterator[str]:
        """A line for each repository that two things would go to."""
        if self.tokenizer and RUN in self.tokenizer:
            yield f"tokenizer: {self.tokenizer}: the runs share it; leave {RUN} out"
        names = [self.tokenizer, *(self.of_model(run).model for run in self.runs_of(runs))]
        for name, count in Counter(filter(None, names)).items():
            if count > 1:
                yield f"model: {count} things would go to {name}; put {RUN} into the name"

    def runs_of(self, runs: Iterable[str]) -> list[str]:
        """Return those of all `runs` whose models are published, sorted."""
        return sorted(runs if self.runs is None else self.runs) if self.model else []

    def of_tokenizer(self) -> Self:
        """Return the section for the job that publishes the tokenizer."""
        return self.only("tokenizer", "private", "license", "language", "source")

    def of_model(self, run: str) -> Self:
        """Return the section for the job that publishes the model of `run`, with its repository."""
        section = self.only("model", "private", "license", "language", "source")
        name = self.model and self.model.replace(RUN, run)
        return section.model_copy(update={"model": name})


def licence_of(license: str, run: str, base: str | None, of_base: str | None) -> str:
    """The licence on the card of `run`, which started from the checkpoint `base`, if any: that of
    section `publish`, or if that is the default the checkpoint's. MlmError without either."""
    default = Publish().license
    licence = license if license != default else of_base or license
    if base is not None and licence == default:
        raise MlmError(
            f"publish.license: run {run} starts from {base}, whose README.md names no license. "
            "Ask its authors on which terms the model may be published, and set it to them"
        )
    return licence
