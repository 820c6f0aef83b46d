"""What a run was shown of a sentence, as `scripts/ask.py --json` prints it.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.passages import Part, UsedBatches, packed_parts
from mlm.asking.past_run import PastRun, TrainingSoFar, past_run
from mlm.asking.provenance import checked_texts, sources_of
from mlm.asking.text_index import open_indexes
from mlm.asking.training_inputs import RESULTS
from mlm.config.fields import SPLITS
from mlm.config.resolution import Settings
from mlm.corpus.file_patterns import corpus_settings
from mlm.corpus.filters import prepared
from mlm.foundations.errors import MlmError
from mlm.foundations.phrasing import plural


@dataclass(frozen=True)
class Passage:
    """One occurrence of the sentence, or a passage near to it with `shared` of its words."""

    split: str
    document: int
    source: str
    text: str
    shared: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Answer:
    """All that is known of a sentence: of the `found` passages the first, the nearest if it occurs
    nowhere (`exact`), and `notes`, sentences on what the figures leave out."""

    run: str
    question: str
    exact: bool
    words: int
    found: int
    passages: tuple[Passage, ...]
    training: TrainingSoFar
    notes: tuple[str, ...]
    format_version: int = 1


def ask(sentence: str, settings: Settings, run: str, most: int = 20, nearest: int = 3) -> Answer:
    """All that the results in the working directory say of the sentence, with the first `most`
    passages, or else the `nearest`; MlmError for an empty sentence, an unknown run, missing
    results, and another configuration, code or data than the training had."""
    sentence = prepared(sentence, settings["corpus"]["filters"]["normalisation"]).text.strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    past = past_run(settings, run)
    corpus = {split: checked_texts(split, settings, past) for split in SPLITS}
    texts = {split: documents for split, (_, documents) in corpus.items()}
    indexes, notes = open_indexes(texts, RESULTS, past.memory)
    documents = Documents(texts, indexes)
    stretches = documents.exact(sentence)
    exact, count = bool(stretches), len(stretches)
    if exact:
        stretches = stretches[:most]
    else:
        stretches = documents.nearest(sentence, min(nearest, most))
        count = len(stretches)
    described = {split: of_split for split, (of_split, _) in corpus.items()}
    sources = sources_of(stretches, documents, described, corpus_settings(settings))
    parts = _parts(stretches, past)
    return Answer(
        run=run,
        question=sentence,
        exact=exact,
        words=len(words_of(sentence)),
        found=count,
        passages=tuple(
            Passage(one.split, one.document, source, one.passage, one.shared, parts.get(one, ()))
            for one, source in zip(stretches, sources, strict=True)
        ),
        training=past.so_far,
        notes=(*past.notes, *notes, *_notes(past)),
    )


def _parts(stretches: Sequence[Stretch], past: PastRun) -> dict[Stretch, tuple[Part, ...]]:
    """The parts of each stretch whose split is packed, those of train with their uses."""
    found, run = {}, past.run
    order, reached = run.order_from(0), past.so_far.reached
    batches = UsedBatches(order, run.train, run.plan, run.seed, past.encoder, reached)
    for split, manifest in past.manifests.items():
        own = [one for one in stretches if one.split == split]
        packed = packed_parts(own, manifest, past.root(split), past.encoder)
        flat = [one for of_stretch in packed for one in of_stretch]
        parts = iter(batches.with_uses(flat) if split == "train" else [one.part for one in flat])
        for stretch, of_stretch in zip(own, packed, strict=True):
            found[stretch] = tuple(next(parts) for _ in of_stretch)
    return found


def _notes(past: PastRun) -> list[str]:
    notes = []
    if past.run.model.start_from:
        notes.append(
            "Before step 1 the weights were those of a published encoder (model.start_from). What "
            "it was trained on is not known here, and may hold what is asked about."
        )
    elif past.run.model.initialisation.embeddings == "cooccurrence":
        notes.append(
            "Before step 1 the word embeddings were set from counts of the train split "
            "(model.initialisation.embeddings), where a sample may count that no step uses."
        )
    if "test" not in past.manifests:
        notes.append("The test split is not packed yet, so that its samples are not known.")
    return notes


def not_looked_at(answer: Answer) -> str:
    """That the answer holds only some of the passages, if so."""
    shown = len(answer.passages)
    if answer.found <= shown:
        return ""
    return (
        f"Only {shown:,} of the {plural(answer.found, 'passage')} were examined: --most "
        f"{answer.found} examines all."
    )
