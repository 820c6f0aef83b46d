"""What a run was shown of a sentence, as `scripts/ask.py --json` prints it.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.passages import Part, UsedBatches, packed_parts
from mlm.asking.past_run import PastRun, SavedState, TrainingSoFar, past_run
from mlm.asking.provenance import checked_texts, sources_of
from mlm.config.configuration import Configuration
from mlm.config.fields import SPLITS
from mlm.corpus.filters import prepared
from mlm.foundations.errors import MlmError
from mlm.samples.documents_in_samples import document_spans

#: So many passages are named near a sentence that occurs nowhere.
_NEAREST = 3


@dataclass(frozen=True)
class Passage:
    """One occurrence of the sentence, or a passage near to it with `shared` of its words.

    `first_step` is the first update that uses its document: None if none does, 0 if the initial
    weights can depend on it. A training without the document would have to continue from
    `state_before`, the last saved state before that update, if one is left.
    """

    split: str
    document: int
    source: str
    text: str
    shared: int
    parts: tuple[Part, ...]
    first_step: int | None = None
    state_before: SavedState | None = None


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
    format_version: int = 2


def ask(sentence: str, settings: Configuration, run: str, most: int = 20) -> Answer:
    """All that the results in the working directory say of the sentence, with the first `most`
    passages, or else the nearest; MlmError for an empty sentence, an unknown run, missing
    results, and another configuration, code or data than the training had."""
    sentence, _ = prepared(sentence, settings.corpus.filters.normalisation)
    sentence = sentence.strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    past = past_run(settings, run)
    corpus = {split: checked_texts(split, settings, past) for split in SPLITS}
    texts = {split: documents for split, (_, documents) in corpus.items()}
    documents = Documents(texts)
    stretches = documents.exact(sentence)
    exact, count = bool(stretches), len(stretches)
    if exact:
        stretches = stretches[:most]
    else:
        stretches = documents.nearest(sentence, min(_NEAREST, most))
        count = len(stretches)
    described = {split: of_split for split, (of_split, _) in corpus.items()}
    sources = sources_of(stretches, documents, described)
    located: dict[Stretch, tuple] = {}
    for split in past.manifests:
        located |= _located([one for one in stretches if one.split == split], split, past)
    return Answer(
        run=run,
        question=sentence,
        exact=exact,
        words=len(words_of(sentence)),
        found=count,
        passages=tuple(
            Passage(
                *(one.split, one.document, source, one.passage, one.shared),
                *located.get(one, ((),)),
            )
            for one, source in zip(stretches, sources, strict=True)
        ),
        training=past.so_far,
        notes=(*past.notes, *_notes(past)),
    )


def _located(stretches: Sequence[Stretch], split: str, past: PastRun) -> dict[Stretch, tuple]:
    """For each of `stretches` of `split`, the last fields of its Passage."""
    manifest, root, run = past.manifests[split], past.root(split), past.run
    texts = {one.document: one.text for one in stretches}
    spans = document_spans(manifest, root, past.encoder, texts)
    packed = packed_parts(stretches, spans, manifest, root, past.encoder)
    if split != "train":
        parts = (tuple(one.part for one in of_one) for of_one in packed)
        return {one: (of_one,) for one, of_one in zip(stretches, parts, strict=True)}
    order, reached, located = run.order_from(0), past.so_far.reached, {}
    batches = UsedBatches(order, run.train, run.plan, run.seed, past.encoder, reached)
    used = iter(batches.with_uses([part for of_one in packed for part in of_one]))
    for one, of_one in zip(stretches, packed, strict=True):
        samples = (sample for sample, _, _ in spans[one.document])
        first = 0 if _counted(past) else order.first_update(run.train, samples)
        state = past.last_state_before(first) if first else None
        located[one] = tuple(next(used) for _ in of_one), first, state
    return located


def _counted(past: PastRun) -> bool:
    """Whether the initial weights can depend on every document of train."""
    return past.run.model.initialisation.embeddings == "cooccurrence"


def _notes(past: PastRun) -> list[str]:
    notes, embeddings = [], "the word embeddings"
    if past.run.model.start_from:
        embeddings = "what the checkpoint's embeddings lack"
        notes.append(
            "Before step 1 the weights were those of a published encoder (model.start_from). What "
            "it was trained on is not known here, and may hold what is asked about."
        )
    if _counted(past):
        notes.append(
            f"Before step 1 {embeddings} came from counts of the train split (model.initialisation."
            "embeddings: cooccurrence), where a sample may count that no step uses: only a "
            "training from its beginning is without a document of it."
        )
    if begun := past.operation.continue_from.run:
        notes.append(f"Its first steps are those of run {begun}, whose states --run {begun} knows.")
    if "://" in past.operation.checkpoint.directory:
        notes.append("Saved states in a bucket are not looked at.")
    if "test" not in past.manifests:
        notes.append("The test split is not packed yet, so that its samples are not known.")
    return notes
