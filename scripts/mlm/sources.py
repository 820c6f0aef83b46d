"""Where documents come from: one stream for each split that the source has by itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mlm.embedded import PACKAGE, SHA256, paragraphs, speeches_by_split


@dataclass(frozen=True)
class Source:
    """A corpus before its filters.

    `streams` gives, by split, the documents' text in order. `described` goes into the
    split's JSON. `carved` are the shares of train that become the splits that are not in
    `streams`. `progress` is the share that was read, from 0 to 1, or None where unknown.
    """

    streams: dict[str, Callable[[], Iterator[str]]]
    described: dict[str, dict]
    carved: dict[str, float] = field(default_factory=dict)
    progress: Callable[[], float | None] = lambda: None


def open_source(settings: dict, files: dict[str, list[str]]) -> Source:
    """The source that `settings` (of `corpus_files.used_settings`) asks for.

    `files` are the matched files by split, for the source `files`. Nothing is read yet but
    what is needed to know the splits. Raises MlmError where the source cannot be opened.
    """
    if settings["source"] == "embedded":
        return _embedded(settings)
    raise NotImplementedError(settings["source"])


def _embedded(settings: dict) -> Source:
    groups = speeches_by_split(settings["seed"], settings["held_out"])
    described = {"kind": "embedded", "package": PACKAGE, "sha256": SHA256}

    def stream(texts: dict[str, str]) -> Iterator[str]:
        for speech in texts.values():
            yield from paragraphs(speech)

    return Source(
        streams={split: lambda t=texts: stream(t) for split, texts in groups.items()},
        described={split: described | {"speeches": list(texts)} for split, texts in groups.items()},
    )
