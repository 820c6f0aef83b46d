"""Opening a part of a corpus, of a single source or of one of a mix, and describing a mix."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mlm.corpus.artefacts import CorpusSource, Mixed, MixedSource, MixSource, ReadPart
from mlm.corpus.filters import Filters
from mlm.corpus.groups import OWN, Document
from mlm.corpus.mix_weights import Segment
from mlm.corpus.parts import Piece
from mlm.corpus.sources import Source, open_source


def open_part(settings: dict, part: Mapping) -> tuple[Source, Filters, int | None]:
    """What a part of the corpus reads, its filters, and the seed of its splits.

    `settings` are those of `corpus.file_patterns.used_settings`, `part` is one of
    `corpus.planning.planned_parts`. Raises MlmError where the source cannot be opened.
    """
    pieces = {split: [Piece(*p) for p in found] for split, found in part["files"].items()}
    name = part.get("source")
    own = settings if name is None else settings["mix"][name]
    source = open_source(own, pieces, tuple(part["share"]))
    if name is not None:
        kinds = [_group_by(one) for one in settings["mix"].values()]
        group_by = group_by_of_mix(kinds)
        streams = {s: _regrouped(f, name, group_by) for s, f in source.streams.items()}
        mixed = Mixed(name, own["weight"], settings["seed"])
        source = replace(source, streams=streams, group_by=group_by, mixed=mixed)
    return source, Filters(**own["filters"]), own["seed"]


def group_by_of_mix(kinds: Sequence[str]) -> str:
    """What the groups of a mix are called, of sources that call theirs `kinds`."""
    return kinds[0] if len(set(kinds)) == 1 else "group"


def group_in_mix(name: str, group: str | None, text: str, group_by: str) -> str | None:
    """The group of a document of the source `name`, apart from those of the other sources.

    In a mix with groups (`group_by`), a document without one is a group by itself.
    """
    if group_by == OWN:
        return None
    if group is None:
        data = text.encode("utf-8", "surrogatepass")
        group = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{name}: {group}"


def _group_by(settings: Mapping) -> str:
    if settings["source"] == "embedded":
        return "address"
    return settings["group_by"] or settings["group_per"] or OWN


def _regrouped(
    stream: Callable[[], Iterator[Document]], name: str, group_by: str
) -> Callable[[], Iterator[Document]]:
    def documents() -> Iterator[Document]:
        for text, group in stream():
            yield Document(text, group_in_mix(name, group, text, group_by))

    return documents


def described_mix(
    parts: Sequence[ReadPart],
    counts: Callable[[Sequence[int]], dict[str, int]],
    segments: Sequence[Segment],
    split: str,
    together: Callable[[Iterator[CorpusSource]], CorpusSource],
) -> MixSource:
    """What a mix says of `split`.

    `counts` gives the documents of some parts by reason, `segments` are what is written, and
    `together` makes one source of those of its parts.
    """
    found = []
    for name in dict.fromkeys(part.mixed.name for part in parts):
        numbers = [n for n, part in enumerate(parts) if part.mixed.name == name]
        mine = set(numbers)
        taken = sum(segment.documents for segment in segments if segment.part in mine)
        source = together(parts[n].splits[split].source for n in numbers)
        weight = parts[numbers[0]].mixed.weight
        found.append(MixedSource(name, weight, taken, counts(numbers), source))
    carved = next((one.source.carved_from for one in found if one.source.carved_from), None)
    return MixSource("mix", tuple(found), carved_from=carved)
