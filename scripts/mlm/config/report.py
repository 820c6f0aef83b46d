"""Section `report`: what the page shows."""

from typing import Literal, get_args

from pydantic import Field

from mlm.config.fields import Section, Text, named_twice

_Part = Literal[
    "summary",
    "pipeline",
    "corpus",
    "tokenizer",
    "shards",
    "preflight",
    "preview",
    "training",
    "runs",
    "evaluation",
    "fill_mask",
    "samples",
    "asked",
    "finetune",
    "cost",
    "provenance",
]


class Report(Section):
    title: Text = Field("A masked language model from scratch", description="The page's heading.")
    sections: list[_Part] = Field(
        list(get_args(_Part)),
        description="What the report shows, in this order. preview, preflight, finetune and cost"
        " are left out where there is nothing to show.",
    )
    runs: list[str] | None = Field(None, description="Runs to show; null: all.")
    cost: bool = Field(
        False,
        description="Show time and memory from the benchmarks. They differ from run to run, and so"
        " do the report's bytes then.",
    )

    def contradictions(self) -> list[str]:
        problems = named_twice("report.sections", self.sections)
        return problems + named_twice("report.runs", self.runs)
