"""A question about what a run was shown, from the sentence to the answer."""

from dataclasses import dataclass, replace
from pathlib import Path

from mlm.asking.answer import (
    Answer,
    Check,
    Masked,
    Part,
    Passage,
    Token,
    TrainingSoFar,
    Use,
)
from mlm.asking.documents import Documents, words_of
from mlm.asking.origin import check_corpus, check_text, sources_of, with_targets
from mlm.asking.packed import Packed, PackedSplit
from mlm.asking.past_run import RESULTS, PastRun, files_of_training, past_run
from mlm.asking.text_index import open_indexes
from mlm.asking.uses import RunBatches, Shown, looked_at_in_validation, shown_in_validation
from mlm.config.fields import SPLITS
from mlm.config.resolution import Settings
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.file_patterns import corpus_settings
from mlm.corpus.filters import Filters
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.artefacts import read_artefact
from mlm.foundations.digests import FileMemory
from mlm.foundations.errors import MlmError
from mlm.samples.manifests import Manifest, shards_root
from mlm.samples.split_samples import evenly_spread
from mlm.tokenizer.encoding import Encoder
from mlm.training.run import RunFiles
from mlm.training.run_inputs import read_manifests


@dataclass(frozen=True)
class Question:
    """What is asked of the results in the working directory.

    The answer has the first `most` passages, or so many of the nearest, at most `nearest`.
    `command` is the snakemake command of the configuration, without targets.
    """

    sentence: str
    settings: Settings
    run: str
    most: int = 20
    nearest: int = 3
    command: str = "snakemake --cores 2"


def ask(question: Question) -> Answer:
    """All that is known of the sentence.

    Raises MlmError for an empty sentence, a run that there is not, results that are not there yet,
    and if configuration, code or data are not those of the training.
    """
    settings = question.settings
    sentence = Filters(**settings["corpus"]["filters"]).prepared(question.sentence).text.strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    check_run(settings, question.run)
    inputs = _Inputs.read(question)
    if inputs.manifests["train"].corpus_sha256 is None:
        found = _in_tokens(sentence, inputs, question)
        words = len(inputs.encoder.encode([sentence])[0]) - 2
    else:
        found = _in_documents(sentence, inputs, question)
        words = len(words_of(sentence))
    return Answer(
        run=question.run,
        question=sentence,
        exact=found.exact,
        words=words,
        found=found.count,
        passages=_with_parts(found.passages, inputs),
        training=so_far(inputs.past),
        notes=(*inputs.past.notes, *found.notes, *_notes(inputs)),
    )


def check_run(settings: Settings, run: str) -> None:
    """Raise MlmError if the configuration has no such run."""
    if run not in settings["runs"]:
        raise MlmError(f"No run is called {run!r}; there are: {', '.join(settings['runs'])}")


def opened_memory() -> FileMemory:
    """What is remembered of the digests of files and modules."""
    return FileMemory(".snakemake/remembered-digests.json")


@dataclass(frozen=True)
class _Inputs:
    """What an answer is computed from; `manifests` of the splits that are packed."""

    manifests: dict[str, Manifest]
    encoder: Encoder
    packed: dict[str, PackedSplit]
    past: PastRun
    memory: FileMemory
    evaluation: dict | None

    @classmethod
    def read(cls, question: Question) -> "_Inputs":
        settings, run, trained = question.settings, question.run, files_of_training()
        paths = {split: RESULTS / "manifests" / f"{split}.json" for split in SPLITS}
        here = {split: str(path) for split, path in paths.items() if path.exists()}
        needed = [trained.tokenizer, *trained.manifests.values()]
        if missing := [path for path in needed if not Path(path).exists()]:
            raise MlmError(
                f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
                f"is shown. To have it made: {with_targets(question.command, missing)}"
            )
        files = RunFiles(trained.tokenizer, here)
        manifests = read_manifests(files, settings["shards"]["sequence_length"])
        encoder, memory = Encoder.load(files.tokenizer), opened_memory()
        evaluation = RESULTS / "runs" / run / "evaluation.json"
        return cls(
            manifests=manifests,
            encoder=encoder,
            packed={
                split: PackedSplit(manifest, shards_root(manifest, here[split]), encoder)
                for split, manifest in manifests.items()
            },
            past=past_run(settings, run, files, manifests, encoder, memory),
            memory=memory,
            evaluation=read_artefact(evaluation)["settings"] if evaluation.exists() else None,
        )


@dataclass(frozen=True)
class _Found:
    """How many passages there are, whether they are exact, the first of them with where they are
    packed, and sentences on the search."""

    count: int
    exact: bool
    passages: list[tuple[Passage, list[Packed]]]
    notes: tuple[str, ...] = ()


def _in_documents(sentence: str, inputs: _Inputs, question: Question) -> _Found:
    """Where the sentence is in the documents of the corpus, or what is nearest to it."""
    used, command = corpus_settings(question.settings), question.command
    described, texts = {}, {}
    for split in SPLITS:
        path = RESULTS / "corpus" / f"{split}.json"
        texts[split] = SplitDocuments.described(path) if path.exists() else None
        for file in [path] if texts[split] is None else texts[split].paths:
            if not file.exists():
                raise MlmError(
                    f"{file}: is missing, so that no sentence can be looked up. To have it made: "
                    f"{with_targets(command, [str(file)])}"
                )
        described[split] = CorpusSplit.read(path)
        check_corpus(path, described[split], used)
        check_text(path, texts[split], inputs.memory, command)
        manifest = inputs.manifests.get(split)
        if manifest and described[split].sha256 != manifest.corpus_sha256:
            raise MlmError(
                f"{texts[split].named}: is not the text that the {split} shards were made from. To "
                f"have them made from it: {command}"
            )
    made = with_targets(command, ["index"])
    indexes, notes = open_indexes(texts, RESULTS, inputs.memory, made)
    packed = {
        split: one.with_tokens(indexes[split].tokens) if split in indexes else one
        for split, one in inputs.packed.items()
    }
    documents = Documents(texts, indexes)
    stretches = documents.exact(sentence)
    exact, count = bool(stretches), len(stretches)
    if exact:
        stretches = stretches[: question.most]
    else:
        stretches = documents.nearest(sentence, min(question.nearest, question.most))
        count = len(stretches)
    passages = []
    sources = sources_of(stretches, documents, described, used)
    for one, source in zip(stretches, sources, strict=True):
        text = one.text[one.start : one.end]
        parts = []
        if one.split in packed:
            place = one.document, one.text, one.start, one.end
            parts = packed[one.split].of_characters(*place)
        passages.append((Passage(one.split, one.document, source, text, one.shared, ()), parts))
    return _Found(count, exact, passages, tuple(notes))


def _in_tokens(sentence: str, inputs: _Inputs, question: Question) -> _Found:
    """Where the sentence's ids are, of shards that came without text."""
    # As the first of a document and within one: byte-level tokenizers tell the two apart.
    rows = [ids[1:-1] for ids in inputs.encoder.encode([sentence, f" {sentence}"])]
    found = [
        (split, parts) for split, packed in inputs.packed.items() for parts in packed.of_ids(rows)
    ]
    passages = []
    for split, parts in found[: question.most]:
        ids = [int(i) for part in parts for i in part.input_ids[part.start : part.end]]
        text = inputs.encoder.decode(ids)
        passages.append((Passage(split, None, None, text, len(rows[0]), ()), parts))
    notes = () if found else (_TOKENS_ALONE,)
    return _Found(len(found), bool(found), passages, notes)


_TOKENS_ALONE = (
    "The shards came without text (shards.source: prebuilt): just the tokens of the sentence were "
    "looked for."
)


def _with_parts(
    passages: list[tuple[Passage, list[Packed]]], inputs: _Inputs
) -> tuple[Passage, ...]:
    """The passages with their parts and the uses of these."""
    batches = RunBatches.of(inputs.past.run)
    found = []
    for passage, packed in passages:
        uses = batches.uses_of(packed) if passage.split == "train" else [[]] * len(packed)
        parts = []
        for one, of_sample in zip(packed, uses, strict=True):
            tokens = tuple(
                Token(place, i := int(one.input_ids[place]), text or text_of(inputs.encoder, i))
                for place, text in zip(range(one.start, one.end), one.texts, strict=True)
            )
            shown_to_steps = tuple(
                Use(
                    use.step,
                    use.epoch + 1,
                    use.step <= inputs.past.reached,
                    _masked(one, use.shown, inputs),
                )
                for use in of_sample or ()
            )
            parts.append(
                Part(
                    sample=one.sample,
                    shard=one.shard,
                    shard_sample=one.shard_sample,
                    tokens=tokens,
                    uses=shown_to_steps,
                    checks=tuple(_checks(passage.split, one, inputs)),
                    left_out=of_sample is None,
                )
            )
        found.append(replace(passage, parts=tuple(parts)))
    return tuple(found)


def _masked(packed: Packed, shown: Shown, inputs: _Inputs) -> tuple[Masked, ...]:
    """What was in place of the passage's tokens that were asked for."""
    found, mask = [], inputs.past.run.plan.mask_id
    for place in range(packed.start, packed.end):
        if shown.asked[place]:
            was, now = int(packed.input_ids[place]), int(shown.input_ids[place])
            kind = "mask" if now == mask else "itself" if now == was else "random"
            found.append(Masked(place, kind, now, text_of(inputs.encoder, now)))
    return tuple(found)


def _checks(split: str, packed: Packed, inputs: _Inputs) -> list[Check]:
    """Where the sample was looked at without training on it."""
    run, evaluation = inputs.past.run, inputs.evaluation
    if split == "validation" and looked_at_in_validation(run, packed.sample):
        shown = shown_in_validation(run, packed.sample, packed.input_ids, packed.attention_mask)
        where = f"in validation, every {run.pretraining.validation.every:,} steps and at the last"
        return [Check(where, _masked(packed, shown, inputs))]
    if evaluation is None or split == "validation":
        return []
    manifest = inputs.manifests[split]
    of, count = "gap between train and test", evaluation["train_samples"]
    if split == "test":
        from mlm.evaluation.evaluation_data import evaluated

        of, count = "test loss", evaluated(manifest, evaluation["max_tokens"])
    chosen = evenly_spread(manifest.num_samples, count)
    return [Check(f"in the evaluation, for the {of}")] if packed.sample in chosen else []


def text_of(encoder: Encoder, token: int) -> str:
    """How a token reads by itself; its name in the vocabulary if that is nothing."""
    text = encoder.decode([token], skip_special_tokens=False).strip()
    return text if text and "\ufffd" not in text else encoder.names()[token]


def so_far(past: PastRun) -> TrainingSoFar:
    """How far the training is known to be."""
    record = past.record
    return TrainingSoFar(
        state="not begun" if record is None else "finished" if record.finished else "under way",
        reached=past.reached,
        steps=past.run.steps,
        samples_per_step=past.run.batch_size,
        samples=past.run.train.num_samples,
        record=record.file if record else None,
    )


def _notes(inputs: _Inputs) -> list[str]:
    notes = []
    if inputs.past.run.model.initialisation.embeddings == "cooccurrence":
        notes.append(
            "Before step 1 the word embeddings were set from counts of the train split "
            "(model.initialisation.embeddings), where a sample may count that no step uses."
        )
    if "test" not in inputs.manifests:
        notes.append("The test split is not packed yet, so that its samples are not known.")
    return notes
