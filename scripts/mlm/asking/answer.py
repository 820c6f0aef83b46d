"""What a run was shown of a sentence, as `scripts/ask.py` prints it, and with `--json`.

Documents, samples and tokens are counted from 0, as in the files; steps and epochs from 1: step n
is the n-th update of the weights, and the n-th row of a log with `log_every: 1`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlm.asking.passages_in_training import (
    Masked,
    Part,
    Stretch,
    occurrences,
    packed_parts,
    with_uses,
)
from mlm.asking.past_run import RESULTS, PastRun, TrainingSoFar, past_run
from mlm.config.configuration import Configuration
from mlm.config.corpus import UNGROUPED, CorpusConfiguration
from mlm.config.fields import SPLITS
from mlm.corpus.artefacts import CorpusSplit, FilesSource
from mlm.corpus.bytes_to_text import prepared
from mlm.corpus.corpus_reading import SplitDocuments
from mlm.foundations.artefacts import settings_digests
from mlm.foundations.digests import file_sha256
from mlm.foundations.errors import SAME_COMMAND, MlmError, on_one_line, remedy

_KINDS = {"mask": "hidden", "random": "another in its place", "itself": "left to see"}


@dataclass(frozen=True)
class Passage:
    """One occurrence of the sentence."""

    split: str
    document: int
    source: str
    text: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Answer:
    """All that is known of a sentence: the number of its `occurrences`, the first of them as
    passages, and `notes`, sentences on what the figures leave out."""

    run: str
    question: str
    occurrences: int
    passages: tuple[Passage, ...]
    training: TrainingSoFar
    notes: tuple[str, ...]
    format_version: int = 3


def ask(sentence: str, settings: Configuration, run: str, most: int = 20) -> Answer:
    """Return all that the results in the working directory say of the sentence, with the first
    `most` passages; MlmError for an empty sentence, missing results, and
    another configuration, code or data than the training had."""
    sentence = prepared(sentence, settings.corpus.filters.normalisation)[0].strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    past = past_run(settings, run)
    corpora = {split: _checked_corpus(split, settings, past) for split in SPLITS}
    documents = {split: texts for split, (_, texts) in corpora.items()}
    everywhere = occurrences(sentence, documents)
    shown = everywhere[:most]
    parts: dict[Stretch, tuple[Part, ...]] = {}
    for split, manifest in past.manifests.items():
        stretches = [stretch for stretch in shown if stretch.split == split]
        parts |= packed_parts(stretches, manifest, past.root(split), past.encoder)
    train = {stretch: of for stretch, of in parts.items() if stretch.split == "train"}
    parts |= with_uses(train, past.run, past.encoder, past.so_far.reached)
    return Answer(
        run=run,
        question=sentence,
        occurrences=len(everywhere),
        passages=tuple(
            Passage(
                split=stretch.split,
                document=stretch.document,
                source=_source(stretch, *corpora[stretch.split]),
                text=stretch.passage,
                parts=parts.get(stretch, ()),
            )
            for stretch in shown
        ),
        training=past.so_far,
        notes=(*past.notes, *_notes(past)),
    )


def _checked_corpus(
    split: str, settings: Configuration, past: PastRun
) -> tuple[CorpusSplit, SplitDocuments]:
    """Return the split as results/corpus/{split}.json describes it, and its documents; MlmError if
    a file is missing or damaged, if the corpus was made with other settings, or if the shards were
    made from another text."""
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
        if not file.exists() or file_sha256(file) != recorded.sha256:
            raise MlmError(
                f"{file} is damaged or missing: it is not what was written beside {path}. "
                f"{remedy(file)} {file}"
            )
    if split in past.manifests and described.sha256 != past.manifests[split].corpus_sha256:
        raise MlmError(
            f"{documents.named}: is not the text that the {split} shards were made from. To "
            f"have them made from it: {SAME_COMMAND}"
        )
    return described, documents


def _source(stretch: Stretch, described: CorpusSplit, documents: SplitDocuments) -> str:
    """Return the source of the document: of the group, if it is the file, else of the split."""
    source = str(described.source)
    if isinstance(described.source, FilesSource) and len(described.source.files) == 1:
        source = described.source.files[0].path
    if described.group_by == UNGROUPED:
        return source
    number = stretch.document
    (rows,) = documents.batches(["group"], 1, range(number, number + 1))
    group = str(rows.column("group")[0].as_py())
    # A file that is the group needs no second name.
    return group if described.group_by == "file" else f"{described.group_by} {group}, {source}"


def _notes(past: PastRun) -> Iterator[str]:
    if past.run.model.start_from:
        yield (
            "Before step 1 the weights were those of a published encoder (model.start_from). What "
            "it was trained on is not known here, and may hold what is asked about."
        )
    if past.run.model.initialisation.embeddings == "cooccurrence":
        yield (
            "Before step 1 the word embeddings came from counts of the train split (model."
            "initialisation.embeddings: cooccurrence), which also count samples that no step uses."
        )
    if begun := past.operation.continue_from.run:
        yield f"Its first steps are those of run {begun}."
    if "://" in past.operation.checkpoint.directory:
        yield "Saved states in a bucket are not looked at."
    if "test" not in past.manifests:
        yield "The test split is not packed yet, so that its samples are not known."


def in_words(answer: Answer) -> str:
    """Return `answer` as text that ends without a line feed."""
    lines = [_training(answer.run, answer.training), _occurrences(answer)]
    for number, passage in enumerate(answer.passages, start=1):
        lines += ["", *_passage(number, passage)]
    if answer.notes:
        lines += ["", *answer.notes]
    return "\n".join(lines)


def _training(run: str, training: TrainingSoFar) -> str:
    """Return how far the training of `run` is known to be, in a sentence."""
    size = f"{training.steps:,} steps of {training.samples_per_step:,} samples"
    if training.state == "finished":
        return f"Run {run}: trained to its end, {size}."
    if training.state == "under way":
        return (
            f"Run {run}: has made {training.reached:,} of {size} by its last saved state, "
            f"{training.record}."
        )
    return f"Run {run}: no training of it is known. It would make {size}."


def _occurrences(answer: Answer) -> str:
    if not answer.occurrences:
        return "The sentence does not occur in the corpus. Ask for a shorter part of it."
    times = "once" if answer.occurrences == 1 else f"{answer.occurrences:,} times"
    more = answer.occurrences - len(answer.passages)
    left_out = f"; {more:,} more with --most {answer.occurrences}" if more else ""
    return f"The sentence occurs in the corpus {times}{left_out}."


def _passage(number: int, passage: Passage) -> Iterator[str]:
    source = on_one_line(passage.source)
    yield f"{number}. In document {passage.document:,} of {passage.split} ({source})"
    if passage.split != "train":
        yield f"   Never trained on: the {passage.split} split is held out."
    counts = []
    for part in passage.parts:
        yield from (f"   {line}" for line in _part(part, passage.split))
        masked = [m for use in part.uses if use.reached for m in use.masked]
        for token in part.tokens:
            kinds = Counter(m.kind for m in masked if m.position == token.position)
            if kinds:
                words = ", ".join(f"{kinds[k]:,} {how}" for k, how in _KINDS.items() if kinds[k])
                counts.append(f"{on_one_line(token.text)} ({words})")
    if counts:
        yield f"   Masked so far: {'; '.join(counts)}"


def _part(part: Part, split: str) -> Iterator[str]:
    first, last = part.tokens[0].position, part.tokens[-1].position
    tokens = f"tokens {first} to {last}" if last != first else f"token {first}"
    yield (
        f"Sample {part.sample:,}, which is {part.shard_sample:,} in {part.shard}: {tokens}, "
        f"“{on_one_line(' '.join(t.text for t in part.tokens))}”"
    )
    for use in part.uses:
        far = "" if use.reached else " (not reached)"
        yield f"  step {use.step:,}, epoch {use.epoch}{far}: {_masked(part, use.masked)}"
    if split == "train" and not part.uses:
        yield "  used at no step"


def _masked(part: Part, masked: Sequence[Masked]) -> str:
    texts = {token.position: token.text for token in part.tokens}
    shown = (f"{texts[m.position]} → {'itself' if m.kind == 'itself' else m.shown}" for m in masked)
    return on_one_line(", ".join(shown)) or "none masked"
