"""Which year is a passage from? A regression that the embedded corpus holds by itself.

The target of a passage is (year - 1900) / 50. Passages of one year and president share their
subject and wording, so that these are the groups that folds must not divide.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlm.corpus.embedded import address_of, paragraphs, speeches, speeches_by_split
from mlm.finetuning.examples import Example

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_YEAR = re.compile(r"\d{4}")


@dataclass(frozen=True)
class PretrainingSplit:
    """How the corpus was divided before pretraining: its seed, and the shares held out."""

    seed: int
    held_out: dict[str, float]


def passages(speech: str, words: int) -> Iterator[str]:
    """The speech cut into runs of whole sentences of at most `words` words.

    A sentence that is longer stands alone. What is left at the end joins no other passage,
    and is left out below a third of `words`: so little text has no year.
    """
    held: list[str] = []
    count = 0
    for paragraph in paragraphs(speech):
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            length = len(sentence.split())
            if held and count + length > words:
                yield " ".join(held)
                held, count = [], 0
            held.append(sentence)
            count += length
    if 3 * count >= words:
        yield " ".join(held)


def year_examples(
    words: int, per_speech: int, seed: int, pretraining: PretrainingSplit | None
) -> list[Example]:
    """Passages of every speech, at most `per_speech` of each, chosen by a keyed hash.

    A passage that an earlier speech holds word for word is left out. `pretraining` gives each
    its split; None where pretraining read other text.
    """
    text = speeches()
    split = {}
    if pretraining is not None:
        found_in = speeches_by_split(pretraining.seed, pretraining.held_out)
        for name, members in found_in.items():
            split.update(dict.fromkeys(members, name))
    found, seen = [], set()
    for speech, content in text.items():
        target = repr((int(_YEAR.match(speech)[0]) - 1900) / 50)
        candidates = []
        for i, passage in enumerate(passages(content, words)):
            if passage not in seen:
                seen.add(passage)
                candidates.append((f"{speech}-{i:04d}", passage))
        chosen = sorted(candidates, key=lambda c: (_keyed(seed, c[0]), c[0]))[:per_speech]
        found += [
            Example(name, passage, target, address_of(speech), split.get(speech, ""))
            for name, passage in sorted(chosen)
        ]
    return found


def _keyed(seed: int, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8, key=b"passage %d" % seed).digest()
