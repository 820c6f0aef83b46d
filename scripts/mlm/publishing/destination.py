"""What the section `publish` of the configuration asks to publish, and where it goes.

Imports nothing but the standard library: the workflow reads it whenever it starts.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Destination:
    """Where something goes: a repository `owner/name`, its kind, and a branch of it.

    `kind` is `model` or `dataset`, in the Hub's words. `private` is what is asked for.
    """

    repository: str
    kind: str
    private: bool
    branch: str = "main"
