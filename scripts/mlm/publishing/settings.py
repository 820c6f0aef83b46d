"""What the section `publish` of the configuration asks to publish, and where it goes.

Imports nothing but the standard library: the workflow reads it whenever it starts.
"""

from dataclasses import dataclass

#: What stands for the run's name in `publish.model`.
RUN = "{run}"


@dataclass(frozen=True)
class Destination:
    """Where something goes: a repository `owner/name`, its kind, and a branch of it.

    `kind` is `model` or `dataset`, in the Hub's words. `private` is what is asked for.
    """

    repository: str
    kind: str
    private: bool
    branch: str = "main"


def published_runs(config: dict) -> list[str]:
    """Names of the runs whose models are published, sorted; none without `publish.model`."""
    section = config["publish"]
    if not section["model"]:
        return []
    return sorted(section["runs"] if section["runs"] is not None else config["runs"])


def model_repository(section: dict, run: str) -> str | None:
    """The repository of the model of `run`; None where models are not published."""
    return section["model"] and section["model"].replace(RUN, run)
