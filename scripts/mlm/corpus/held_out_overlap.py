"""Documents of train that share words in a row with documents of validation or test.

What is held out is known once the whole source is read; then each part of train is looked through
by itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mlm.corpus.artefacts import TakenByRule
from mlm.corpus.corpus_writing import SpooledCorpus
from mlm.corpus.decontamination import Decontamination, held_out, held_out_rule
from mlm.corpus.deduplication import CONTAMINATED, KEPT, PRECEDENCE, write_block
from mlm.corpus.rule_counts import RuleCount
from mlm.corpus.spooling import kept_batches

_TRAIN = PRECEDENCE.index("train")


def write_overlaps(
    corpus: SpooledCorpus, parts: Sequence[int], settings: Mapping, removed: Path, place: Path
) -> dict[str, TakenByRule]:
    """Write to `removed` which documents of train in `parts` to leave out, for `Removed` to read.

    `settings` are `also` and `words` of the section `corpus.filters.decontamination`. All that was
    read of the held-out splits counts, duplicates too. `place` is a working file. Returns what each
    rule took. Raises MlmError for more n-grams than a job can hold.
    """
    splits = held_out(settings)
    known = Decontamination({"words": settings["words"]})
    for split in splits:
        for number, part in enumerate(corpus.parts):
            rows = part.splits[split]
            everything = np.broadcast_to(np.uint8(KEPT), rows.documents)
            spool = corpus.files[number].spool(split)
            for batch in kept_batches(spool, rows.batches, everything, range(rows.documents)):
                known.add(held_out_rule(split), batch.column("text").to_pylist())
    counts = {held_out_rule(split): RuleCount() for split in splits}
    with open(removed, "wb") as file:
        for number in parts:
            rows = corpus.parts[number].splits["train"]
            verdicts = corpus.removed.verdicts(number, "train", rows.documents, place)
            kept, found, seen = np.flatnonzero(verdicts == KEPT), [], 0
            batches = kept_batches(
                *(corpus.files[number].spool("train"), rows.batches, verdicts),
                range(rows.documents),
            )
            for batch in batches:
                for text in batch.column("text").to_pylist():
                    taken = []
                    if known.judged(text, taken)[1]:
                        found.append(int(kept[seen]))
                        counts[taken[0].rule].add(taken[0])
                    seen += 1
            place.unlink(missing_ok=True)
            if found:
                same = (np.full(len(found), value) for value in (number, _TRAIN, CONTAMINATED))
                part, split, verdict = same
                write_block(file, part, split, np.array(found), verdict)
    return {rule: count.record() for rule, count in counts.items()}
