"""What a run was shown of a sentence, as `scripts/ask.py --json` prints it.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.passages import Part, packed_documents, with_uses
from mlm.asking.past_run import RESULTS, PastRun, SavedState, TrainingSoFar, past_run
from mlm.config.configuration import Configuration
from mlm.config.corpus import UNGROUPED, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.filters import prepared
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import settings_digests
from mlm.foundations.errors import SAME_COMMAND, MlmError, remedy

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
    sentence = prepared(sentence, settings.corpus.filters.normalisation)[0].strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    past = past_run(settings, run)
    corpora = {split: _checked_corpus(split, settings, past) for split in SPLITS}
    documents = Documents({split: documents for split, (_, documents) in corpora.items()})
    exact = bool(stretches := documents.exact(sentence))
    if not exact:
        stretches = documents.nearest(sentence, min(_NEAREST, most))
    shown = stretches[:most]
    located: dict[Stretch, tuple] = {}
    for split in past.manifests:
        located |= _located([one for one in shown if one.split == split], split, past)
    return Answer(
        run=run,
        question=sentence,
        exact=exact,
        words=len(words_of(sentence)),
        found=len(stretches),
        passages=tuple(
            Passage(
                *(one.split, one.document, _source(one, *corpora[one.split])),
                *(one.passage, one.shared, *located.get(one, ((),))),
            )
            for one in shown
        ),
        training=past.so_far,
        notes=(*past.notes, *_notes(past)),
    )


def _checked_corpus(
    split: str, settings: Configuration, past: PastRun
) -> tuple[CorpusSplit, SplitDocuments]:
    """The split as results/corpus/{split}.json describes it, and its documents; MlmError if a file
    is missing or damaged, if the corpus was made with other settings, or if the shards were made
    from another text."""
    path = RESULTS / "corpus" / f"{split}.json"
    described = CorpusSplit.read(path)
    now = settings_digests(
        {"corpus": CorpusConfiguration.of(settings.corpus, settings.seed).as_param()}
    )["corpus"]
    if described.made_from.settings.get("corpus", now) != now:
        raise MlmError(
            f"{path}: section corpus had other settings when it was made than the configuration. "
            "Give the configuration that it was made with: --configfile FILE"
        )
    documents = SplitDocuments.described(path)
    for file, recorded in zip(documents.paths, described.files, strict=True):
        there = file.exists()
        if not there or past.memory.sha256(file) != recorded.sha256:
            fault = "damaged: it is not what was written beside" if there else "missing beside"
            raise MlmError(f"{file} is {fault} {path}. {remedy(file)} {file}")
    if split in past.manifests and described.sha256 != past.manifests[split].corpus_sha256:
        raise MlmError(
            f"{documents.named}: is not the text that the {split} shards were made from. To "
            f"have them made from it: {SAME_COMMAND}"
        )
    return described, documents


def _source(stretch: Stretch, described: CorpusSplit, documents: SplitDocuments) -> str:
    """The source of the document in words: of the group, if it is the file, else of the split."""
    place = str(described.source)
    if isinstance(described.source, FilesSource) and len(described.source.files) == 1:
        place = described.source.files[0].path
    if described.group_by == UNGROUPED:
        return place
    number = stretch.document
    (rows,) = documents.batches(["group"], 1, range(number, number + 1))
    group = str(rows.column("group")[0].as_py())
    # A file that is the group needs no second name.
    return group if described.group_by == "file" else f"{described.group_by} {group}, {place}"


def _located(stretches: Sequence[Stretch], split: str, past: PastRun) -> dict[Stretch, tuple]:
    """For each of `stretches` of `split`, the last fields of its Passage."""
    run, encoder, reached = past.run, past.encoder, past.so_far.reached
    texts = {one.document: one.text for one in stretches}
    documents = packed_documents(past.manifests[split], past.root(split), encoder, texts)
    parts = [list(documents[one.document].parts(one, encoder)) for one in stretches]
    if split != "train":
        only = (tuple(part for part, _ in passage) for passage in parts)
        return {one: (passage,) for one, passage in zip(stretches, only, strict=True)}
    located: dict[Stretch, tuple] = {}
    used = with_uses([part for passage in parts for part in passage], run, encoder, reached)
    for one, passage in zip(stretches, parts, strict=True):
        samples = documents[one.document].samples.index.tolist()
        first = 0 if _counted(past) else run.first_update(samples)
        state = past.last_state_before(first) if first else None
        located[one] = tuple(next(used) for _ in passage), first, state
    return located


def _counted(past: PastRun) -> bool:
    """Whether the initial weights can depend on every document of train."""
    return past.run.model.initialisation.embeddings == "cooccurrence"


def _notes(past: PastRun) -> Iterator[str]:
    embeddings = "the word embeddings"
    if past.run.model.start_from:
        embeddings = "what the checkpoint's embeddings lack"
        yield (
            "Before step 1 the weights were those of a published encoder (model.start_from). What "
            "it was trained on is not known here, and may hold what is asked about."
        )
    if _counted(past):
        yield (
            f"Before step 1 {embeddings} came from counts of the train split (model.initialisation."
            "embeddings: cooccurrence), where a sample may count that no step uses: only a "
            "training from its beginning is without a document of it."
        )
    if begun := past.operation.continue_from.run:
        yield f"Its first steps are those of run {begun}, whose states --run {begun} knows."
    if "://" in past.operation.checkpoint.directory:
        yield "Saved states in a bucket are not looked at."
    if "test" not in past.manifests:
        yield "The test split is not packed yet, so that its samples are not known."
