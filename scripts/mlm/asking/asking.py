"""A question about what a run was shown, from the sentence to the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
from mlm.asking.origin import with_targets
from mlm.asking.packed import Packed, PackedSplit
from mlm.asking.past_run import PastRun, Record, holes_file, past_run, read_records
from mlm.asking.text_index import open_indexes
from mlm.asking.uses import (
    Shown,
    UseOfSample,
    looked_at_in_validation,
    shown_in_validation,
    uses_of,
)
from mlm.config.fields import SPLITS
from mlm.config.resolution import Settings, run_section
from mlm.config.run import RunConfiguration
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
from mlm.training.run_inputs import read_manifests, run_of

RESULTS = Path("results")


@dataclass(frozen=True)
class Question:
    """What is asked of the results in the working directory.

    Of what is found, the first `most` passages are answered, or so many of the nearest, at most
    `nearest`. `command` is the snakemake command of the configuration, without targets.
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
    and where configuration, code or data are not those of the training.
    """
    settings = question.settings
    sentence = Filters(**settings["corpus"]["filters"]).prepared(question.sentence).text.strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    if question.run not in settings["runs"]:
        raise MlmError(
            f"No run is called {question.run!r}; there are: {', '.join(settings['runs'])}"
        )
    inputs = _Inputs.read(question)
    if inputs.manifests["train"].corpus_sha256 is None:
        found = _in_tokens(sentence, inputs, question)
        words = len(inputs.encoder.encode([sentence])[0]) - 2
    else:
        found = _in_documents(sentence, inputs, question)
        words = len(words_of(sentence))
    past = inputs.past
    return Answer(
        run=question.run,
        question=sentence,
        exact=found.exact,
        words=words,
        found=found.count,
        passages=tuple(_Lookup(inputs).passages(found.located)),
        training=so_far(past),
        notes=(*past.notes, *found.notes, *_notes(past, inputs)),
    )


def settings_of_run(settings: Settings, run: str) -> RunConfiguration:
    """What the configuration says of the training of `run`."""
    own = RunConfiguration.of(settings, run)
    parent = own.pretraining.continue_from.run
    return own.with_values(
        parent=settings_of_run(settings, parent) if parent else None,
        holes=holes_file(RESULTS, run, own.pretraining.forget),
    )


def files_of_training() -> RunFiles:
    """What a training reads, where its stages leave it."""
    manifests = {s: str(RESULTS / "manifests" / f"{s}.json") for s in ("train", "validation")}
    return RunFiles(str(RESULTS / "tokenizer" / "tokenizer.json"), manifests)


def records_of(settings: Settings, run: str) -> list[Record]:
    """What is known of the training of `run`."""
    checkpoint = run_section(settings, run, "pretraining")["checkpoint"]
    return read_records(RESULTS, checkpoint["directory"], run)


def known_run(
    settings: Settings,
    run: str,
    files: RunFiles,
    manifests: dict[str, Manifest],
    encoder: Encoder,
    records: list[Record],
    memory: FileMemory,
) -> PastRun:
    """`past_run` of the configuration's `run`."""
    wanted = settings_of_run(settings, run)
    return past_run(
        lambda replicas: run_of(
            wanted, files, manifests, replicas, with_model=False, encoder=encoder
        ),
        files,
        records,
        (settings["accelerator"]["virtual_replicas"] or 1)
        * (settings["accelerator"]["processes"] or 1),
        memory,
    )


@dataclass(frozen=True)
class _Inputs:
    """What an answer is computed from; `manifests` of the splits that are packed."""

    settings: Settings
    manifests: dict[str, Manifest]
    encoder: Encoder
    packed: dict[str, PackedSplit]
    past: PastRun
    memory: FileMemory
    evaluation: dict | None

    @classmethod
    def read(cls, question: Question) -> "_Inputs":
        settings, run = question.settings, question.run
        length = settings["shards"]["sequence_length"]
        tokenizer = RESULTS / "tokenizer" / "tokenizer.json"
        paths = {split: RESULTS / "manifests" / f"{split}.json" for split in SPLITS}
        needed = [tokenizer, paths["train"], paths["validation"]]
        if missing := [str(path) for path in needed if not path.exists()]:
            raise MlmError(
                f"{', '.join(missing)}: not there yet, so that nothing is known of what a training "
                f"is shown. To have it made: {with_targets(question.command, missing)}"
            )
        here = {split: str(path) for split, path in paths.items() if path.exists()}
        files = RunFiles(str(tokenizer), here)
        manifests = read_manifests(files, length)
        encoder = Encoder.load(tokenizer)
        memory = FileMemory(".snakemake/remembered-digests.json")
        records = records_of(settings, run)
        past = known_run(settings, run, files, manifests, encoder, records, memory)
        evaluation = RESULTS / "runs" / run / "evaluation.json"
        return cls(
            settings=settings,
            manifests=manifests,
            encoder=encoder,
            packed={
                split: PackedSplit(manifest, shards_root(manifest, here[split]), encoder)
                for split, manifest in manifests.items()
            },
            past=past,
            memory=memory,
            evaluation=read_artefact(evaluation)["settings"] if evaluation.exists() else None,
        )


@dataclass(frozen=True)
class _Located:
    """A passage before its uses are looked up; `texts` are those of its tokens, part by part."""

    split: str
    document: int | None
    source: str | None
    text: str
    shared: int
    packed: list[Packed]
    texts: list[str]


@dataclass(frozen=True)
class _Found:
    """How many passages there are, whether they are exact, the first of them, and sentences on the
    search."""

    count: int
    exact: bool
    located: list[_Located]
    notes: tuple[str, ...] = ()


def _in_documents(sentence: str, inputs: _Inputs, question: Question) -> _Found:
    """Where the sentence stands in the documents of the corpus, or what is nearest to it."""
    from mlm.asking.origin import Origins, check_corpus, check_text
    from mlm.corpus.artefacts import CorpusSplit

    used = corpus_settings(inputs.settings)
    described, texts = {}, {}
    for split in SPLITS:
        path = RESULTS / "corpus" / f"{split}.json"
        texts[split] = SplitDocuments.described(path) if path.exists() else None
        for file in [path] if texts[split] is None else texts[split].paths:
            if not file.exists():
                raise MlmError(
                    f"{file}: is missing, so that no sentence can be looked up. To have it made: "
                    f"{with_targets(question.command, [str(file)])}"
                )
        described[split] = CorpusSplit.read(path)
        check_corpus(path, described[split], used)
        check_text(path, texts[split], inputs.memory, question.command)
        manifest = inputs.manifests.get(split)
        if manifest and described[split].sha256 != manifest.corpus_sha256:
            raise MlmError(
                f"{texts[split].named}: is not the text that the {split} shards were made from. To "
                f"have them made from it: {question.command}"
            )
    indexes, notes = open_indexes(
        texts, RESULTS, inputs.memory, with_targets(question.command, ["index"])
    )
    documents = Documents(texts, indexes)
    packed = {
        split: one.with_tokens(indexes[split].tokens) if split in indexes else one
        for split, one in inputs.packed.items()
    }
    stretches = documents.exact(sentence)
    exact, found = bool(stretches), len(stretches)
    if exact:
        stretches = stretches[: question.most]
    else:
        stretches = documents.nearest(sentence, min(question.nearest, question.most))
        found = len(stretches)
    sources = Origins(documents, described, used).of(stretches)
    located = []
    for one, source in zip(stretches, sources, strict=True):
        parts, texts = [], []
        if one.split in packed:
            parts, texts = packed[one.split].of_characters(
                one.document, one.text, one.start, one.end
            )
        text = one.text[one.start : one.end]
        located.append(_Located(one.split, one.document, source, text, one.shared, parts, texts))
    return _Found(found, exact, located, tuple(notes))


def _in_tokens(sentence: str, inputs: _Inputs, question: Question) -> _Found:
    """As `_in_documents`, of shards that came without text: the sentence's ids are looked for."""
    # As the first of a document and within one: byte-level tokenizers tell the two apart.
    rows = [ids[1:-1] for ids in inputs.encoder.encode([sentence, f" {sentence}"])]
    found = [
        (split, parts, len(rows[0]))
        for split, packed in inputs.packed.items()
        for parts in packed.of_ids(rows)
    ]
    exact = bool(found)
    total = len(found)
    if not exact:
        most = min(question.nearest, question.most)
        nearest = [
            (split, *one)
            for split, packed in inputs.packed.items()
            for one in packed.nearest_ids(rows[0], most)
        ]
        found = [one[:3] for one in sorted(nearest, key=lambda one: -one[3])[:most]]
        total = len(found)
    located = []
    for split, parts, shared in found[: question.most]:
        ids = [int(i) for part in parts for i in part.input_ids[part.start : part.end]]
        texts = [text_of(inputs.encoder, i) for i in ids]
        text = inputs.encoder.decode(ids)
        located.append(_Located(split, None, None, text, shared, parts, texts))
    return _Found(total, exact, located)


class _Lookup:
    """Looks up what was shown of passages."""

    def __init__(self, inputs: _Inputs):
        self._inputs, self._past = inputs, inputs.past

    def passages(self, located: Sequence[_Located]) -> list[Passage]:
        """The passages with the uses of their parts; all samples are looked up at once."""
        trained = {p.sample: p for one in located if one.split == "train" for p in one.packed}
        uses = dict(zip(trained, self._uses(list(trained.values())), strict=True))
        return [self._passage(one, uses) for one in located]

    def _uses(self, packed: list[Packed]) -> list[list[UseOfSample]]:
        if not packed:
            return []
        return uses_of(
            self._past.run,
            np.array([p.sample for p in packed], np.int64),
            np.stack([p.input_ids for p in packed]),
            np.stack([p.attention_mask for p in packed]),
        )

    def _passage(self, one: _Located, uses: dict[int, list[UseOfSample]]) -> Passage:
        parts, texts = [], iter(one.texts)
        for packed in one.packed:
            tokens = tuple(
                Token(place, int(packed.input_ids[place]), self._token_text(packed, place, text))
                for place, text in zip(range(packed.start, packed.end), texts, strict=False)
            )
            holes = self._past.run.plan.holes if one.split == "train" else None
            left_out = holes is not None and holes.covers(packed.sample, packed.start)
            of_sample = uses[packed.sample] if one.split == "train" and not left_out else []
            parts.append(
                Part(
                    sample=packed.sample,
                    shard=packed.shard,
                    shard_sample=packed.shard_sample,
                    tokens=tokens,
                    uses=tuple(
                        Use(
                            use.step,
                            use.epoch + 1,
                            use.step <= self._past.reached,
                            self._masked(packed, use.shown),
                        )
                        for use in of_sample
                    ),
                    checks=tuple(self._checks(one.split, packed)),
                    left_out=left_out,
                )
            )
        return Passage(one.split, one.document, one.source, one.text, one.shared, tuple(parts))

    def _token_text(self, packed: Packed, place: int, text: str) -> str:
        return text or text_of(self._inputs.encoder, int(packed.input_ids[place]))

    def _masked(self, packed: Packed, shown: Shown) -> tuple[Masked, ...]:
        """What stood in place of the passage's tokens that were asked for."""
        found = []
        for place in range(packed.start, packed.end):
            if not shown.asked[place]:
                continue
            was, now = int(packed.input_ids[place]), int(shown.input_ids[place])
            mask = self._past.run.plan.mask_id
            kind = "mask" if now == mask else "itself" if now == was else "random"
            found.append(Masked(place, kind, now, text_of(self._inputs.encoder, now)))
        return tuple(found)

    def _checks(self, split: str, packed: Packed) -> list[Check]:
        """Where the sample was looked at without training on it."""
        run, evaluation = self._past.run, self._inputs.evaluation
        if split == "validation" and looked_at_in_validation(run, packed.sample):
            shown = shown_in_validation(run, packed.sample, packed.input_ids, packed.attention_mask)
            where = (
                f"in validation, every {run.pretraining.validation.every:,} steps and at the last"
            )
            return [Check(where, self._masked(packed, shown))]
        if evaluation is None or split == "validation":
            return []
        manifest = self._inputs.manifests[split]
        if split == "test":
            from mlm.evaluation.evaluation_data import evaluated

            count = evaluated(manifest, evaluation["max_tokens"])
        else:
            count = evaluation["train_samples"]
        chosen = evenly_spread(manifest.num_samples, count)
        of = "test loss" if split == "test" else "gap between train and test"
        return [Check(f"in the evaluation, for the {of}")] if packed.sample in chosen else []


def text_of(encoder: Encoder, token: int) -> str:
    """How a token reads by itself; its name in the vocabulary where that is nothing."""
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


def _notes(past: PastRun, inputs: _Inputs) -> list[str]:
    notes = []
    if past.run.model.initialisation.embeddings == "cooccurrence":
        notes.append(
            "Before step 1 the word embeddings were set from counts of the train split "
            "(model.initialisation.embeddings), where a sample may count that no step uses."
        )
    if "test" not in inputs.manifests:
        notes.append("The test split is not packed yet, so that its samples are not known.")
    return notes
