"""What each rule of `corpus.filters` took: documents, characters, and the first few as samples."""

from collections.abc import Mapping

from mlm.corpus.artefacts import TakenByRule

#: Samples of what a rule took, by split, and how many characters of each are kept.
SAMPLES = 3
SAMPLE_CHARACTERS = 300
NOTHING = TakenByRule(0, 0, ())


def taken_of_one(characters: int, sample: str | None) -> TakenByRule:
    """What a rule took of one document, and a text to show of it (None: not shown)."""
    if sample is not None and len(sample) > SAMPLE_CHARACTERS:
        sample = sample[:SAMPLE_CHARACTERS] + "…"
    return TakenByRule(1, characters, () if sample is None else (sample,))


def add_taken(counts: dict[str, TakenByRule], taken: Mapping[str, TakenByRule]) -> None:
    """Add to `counts` what the rules took of further documents."""
    for rule, more in taken.items():
        known = counts.get(rule, NOTHING)
        counts[rule] = TakenByRule(
            known.documents + more.documents,
            known.characters + more.characters,
            (known.samples + more.samples)[:SAMPLES],
        )
