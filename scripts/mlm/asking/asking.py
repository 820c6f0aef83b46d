"""What a run was shown of a sentence: where it is, when it was shown, and how it was masked."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlm.asking.answer import Answer, Check, Masked, Part, Passage, Token, Use
from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.origin import checked_texts, sources_of
from mlm.asking.packed import Packed, packed_parts
from mlm.asking.past_run import RESULTS, PastRun, past_run, with_targets
from mlm.asking.text_index import open_indexes
from mlm.asking.uses import RunBatches, Shown, shown_in_validation
from mlm.config.fields import SPLITS
from mlm.config.resolution import Settings
from mlm.corpus.file_patterns import corpus_settings
from mlm.corpus.filters import prepared
from mlm.foundations.artefacts import read_artefact
from mlm.foundations.errors import MlmError
from mlm.samples.split_samples import evenly_spread
from mlm.tokenizer.encoding import Encoder


@dataclass(frozen=True)
class Question:
    """What is asked of the results in the working directory.

    The answer has the first `most` passages, or the nearest, at most `nearest`. `command` is the
    snakemake command of the configuration, without targets.
    """

    sentence: str
    settings: Settings
    run: str
    most: int = 20
    nearest: int = 3
    command: str = "snakemake --cores 2"


def ask(question: Question) -> Answer:
    """All that is known of the sentence.

    Raises MlmError for an empty sentence, an unknown run, missing results, and if configuration,
    code or data are not those of the training.
    """
    settings, command = question.settings, question.command
    normalisation = settings["corpus"]["filters"]["normalisation"]
    sentence = prepared(question.sentence, normalisation).text.strip()
    if not sentence:
        raise MlmError('The sentence is empty. Give one, in quotes: ask.py "A sentence."')
    past = past_run(settings, question.run, command)
    corpus = {split: checked_texts(split, settings, past, command) for split in SPLITS}
    texts = {split: documents for split, (_, documents) in corpus.items()}
    indexes, notes = open_indexes(texts, RESULTS, past.memory, with_targets(command, "index"))
    documents = Documents(texts, indexes)
    stretches = documents.exact(sentence)
    exact, count = bool(stretches), len(stretches)
    if exact:
        stretches = stretches[: question.most]
    else:
        stretches = documents.nearest(sentence, min(question.nearest, question.most))
        count = len(stretches)
    described = {split: of_split for split, (of_split, _) in corpus.items()}
    sources = sources_of(stretches, documents, described, corpus_settings(settings))
    return Answer(
        run=question.run,
        question=sentence,
        exact=exact,
        words=len(words_of(sentence)),
        found=count,
        passages=tuple(_passages(stretches, sources, past)),
        training=past.so_far,
        notes=(*past.notes, *notes, *_notes(past)),
    )


def _passages(stretches: Sequence[Stretch], sources: Sequence[str], past: PastRun) -> list[Passage]:
    """The stretches with their parts in the samples, and the uses of these."""
    packed = {
        split: iter(
            packed_parts(
                [one for one in stretches if one.split == split],
                manifest,
                past.root(split),
                past.encoder,
            )
        )
        for split, manifest in past.manifests.items()
    }
    evaluation = RESULTS / "runs" / past.run.name / "evaluation.json"
    evaluated = read_artefact(evaluation)["settings"] if evaluation.exists() else None
    all_parts = [next(packed[one.split]) if one.split in packed else [] for one in stretches]
    places = zip(stretches, all_parts, strict=True)
    in_train = [part for one, parts in places if one.split == "train" for part in parts]
    uses_in_train, found = iter(RunBatches.of(past.run).uses_of(in_train)), []
    for one, source, parts in zip(stretches, sources, all_parts, strict=True):
        uses = [next(uses_in_train) if one.split == "train" else [] for _ in parts]
        found.append(
            Passage(
                split=one.split,
                document=one.document,
                source=source,
                text=one.text[one.start : one.end],
                shared=one.shared,
                parts=tuple(
                    Part(
                        sample=part.sample,
                        shard=part.shard,
                        shard_sample=part.shard_sample,
                        tokens=_tokens(part, past.encoder),
                        uses=tuple(
                            Use(
                                use.step,
                                use.epoch + 1,
                                use.step <= past.reached,
                                _masked(part, use.shown, past),
                            )
                            for use in of_sample or ()
                        ),
                        checks=_checks(one.split, part, past, evaluated),
                        left_out=of_sample is None,
                    )
                    for part, of_sample in zip(parts, uses, strict=True)
                ),
            )
        )
    return found


def _tokens(part: Packed, encoder: Encoder) -> tuple[Token, ...]:
    ids = part.input_ids[part.start : part.end].tolist()
    return tuple(
        Token(place, token, text or text_of(encoder, token))
        for place, token, text in zip(range(part.start, part.end), ids, part.texts, strict=True)
    )


def _masked(part: Packed, shown: Shown, past: PastRun) -> tuple[Masked, ...]:
    """The targets in the passage, and what the model saw in their place."""
    found, mask = [], past.run.plan.mask_id
    for place in range(part.start, part.end):
        if shown.asked[place]:
            was, now = int(part.input_ids[place]), int(shown.input_ids[place])
            kind = "mask" if now == mask else "itself" if now == was else "random"
            found.append(Masked(place, kind, now, text_of(past.encoder, now)))
    return tuple(found)


def _checks(split: str, part: Packed, past: PastRun, evaluated: dict | None) -> tuple[Check, ...]:
    """Where the sample was used without training on it; `evaluated`: settings of its evaluation."""
    run = past.run
    if split == "validation" and (shown := shown_in_validation(run, part)):
        where = f"in validation, every {run.pretraining.validation.every:,} steps and at the last"
        return (Check(where, _masked(part, shown, past)),)
    if evaluated is None or split == "validation":
        return ()
    manifest = past.manifests[split]
    of, count = "gap between train and test", evaluated["train_samples"]
    if split == "test":
        from mlm.evaluation.evaluation_data import evaluated as samples_evaluated

        of, count = "test loss", samples_evaluated(manifest, evaluated["max_tokens"])
    if part.sample in evenly_spread(manifest.num_samples, count):
        return (Check(f"in the evaluation, for the {of}"),)
    return ()


def text_of(encoder: Encoder, token: int) -> str:
    """How a token reads by itself; its name in the vocabulary if that is nothing."""
    text = encoder.decode([token], skip_special_tokens=False).strip()
    return text if text and "\ufffd" not in text else encoder.names()[token]


def _notes(past: PastRun) -> list[str]:
    notes = []
    if past.run.model.initialisation.embeddings == "cooccurrence":
        notes.append(
            "Before step 1 the word embeddings were set from counts of the train split "
            "(model.initialisation.embeddings), where a sample may count that no step uses."
        )
    if "test" not in past.manifests:
        notes.append("The test split is not packed yet, so that its samples are not known.")
    return notes
