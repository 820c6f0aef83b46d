"""What a training was shown near the texts that its report shows: prompts and samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlm.asking.artefacts import Asked, AskedText, AskedWord, SeenPassage
from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.packed import PackedSplit
from mlm.asking.text_index import TextIndex
from mlm.asking.uses import RunBatches
from mlm.config.pretraining import Masking
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.filters import Filters
from mlm.corpus.split_documents import SplitDocuments
from mlm.evaluation.artefacts import EvaluationFigures, FillMask, PredictedSample, Prompt
from mlm.samples.artefacts import HolesOfRun
from mlm.samples.holes import Holes
from mlm.samples.manifests import Manifest, shards_root
from mlm.samples.masking import masking_plan
from mlm.samples.stored_batches import BatchOrder, ShardFiles
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training

#: A larger train split is not searched for the report: each text would take seconds.
LARGEST_SEARCHED = 100_000_000
#: So many passages are named near a prompt; near a sample, which is longer, one.
_NEAR_A_PROMPT = 2


@dataclass(frozen=True)
class Records:
    """The files of a run, and of the data that it was trained on; `holes` says what of them the run
    was trained without, None where nothing."""

    training: Path
    evaluation: Path
    fill_mask: Path
    corpus: Path
    manifest: Path
    tokenizer: Path
    holes: Path | None = None


def seen_near(run: str, records: Records, filters: dict) -> Asked:
    """What the training of `run` was shown near its prompts and its best and worst samples.

    `filters` is the section corpus.filters, as the corpus was made with it. Raises MlmError where a
    shard is not that of the manifest, or holds other documents than the corpus.
    """
    training = Training.read(records.training)
    size = CorpusSplit.read(records.corpus).bytes
    if size > LARGEST_SEARCHED:
        return Asked(run, training.steps, (), size)
    search = _Search(records, training, filters)
    texts = [search.prompt(prompt) for prompt in FillMask.read(records.fill_mask).prompts]
    samples = EvaluationFigures.read(records.evaluation).samples
    for kind, found in (("best", samples.best), ("worst", samples.worst)):
        texts += [search.sample(kind, sample) for sample in found]
    return Asked(run, training.steps, tuple(texts), None)


class _Search:
    """Looks up texts in the train split, and what the training was shown there."""

    def __init__(self, records: Records, training: Training, filters: dict):
        manifest = Manifest.read(records.manifest)
        root = shards_root(manifest, records.manifest)
        corpus = SplitDocuments.described(records.corpus)
        self._encoder = encoder = Encoder.load(records.tokenizer)
        self._filters = Filters(**filters)
        # For many questions at once an index is worth its making, also on a small text.
        self._documents = Documents(
            {"train": corpus}, {"train": TextIndex.temporary("train", corpus)}
        )
        self._packed = PackedSplit(manifest, root, encoder)
        order = BatchOrder(
            seed=training.seed,
            global_batch_size=training.global_batch_size,
            shuffle_window=training.shuffle_window,
            start_step=0,
            steps=training.steps,
        )
        masking = Masking.of_param(training.masking)
        plan = masking_plan(masking, encoder, str(records.tokenizer), training.sequence_length)
        if records.holes:
            spans = HolesOfRun.read(records.holes).holes
            plan = replace(plan, holes=Holes.of(spans, encoder.special_ids.pad))
        self._batches = RunBatches(order, ShardFiles.of(manifest, root), plan, training.seed)

    def prompt(self, prompt: Prompt) -> AskedText:
        """Of a prompt, with the first answer in its place."""
        answer = prompt.answers[0]
        text = self._prepared(answer.sequence)
        asked = [answer.token.strip()]
        return self._near("prompt", text, None, asked, _NEAR_A_PROMPT)

    def sample(self, kind: str, sample: PredictedSample) -> AskedText:
        """Of a sample of the test split, without its special tokens."""
        special = set(self._encoder.special_tokens.values())
        tokens = [token for token in sample.tokens if token.text not in special]
        text = self._prepared(_running([token.text for token in tokens]))
        asked = [_bare(token.text) for token in tokens if token.truth]
        return self._near(kind, text, sample.index, asked, 1)

    def _prepared(self, text: str) -> str:
        return self._filters.prepared(text).text.strip()

    def _near(
        self, kind: str, text: str, index: int | None, asked: Sequence[str], most: int
    ) -> AskedText:
        exact = self._documents.exact(text) if text else []
        found = exact[:most] or (self._documents.nearest(text, most) if text else [])
        # Marks stand everywhere, and say nothing.
        asked = tuple(sorted({word for word in asked if words_of(word)}))
        passages = tuple(self._passage(one, asked, bool(exact)) for one in found)
        return AskedText(kind, text, index, len(words_of(text)), asked, passages)

    def _passage(self, one: Stretch, asked: Sequence[str], exact: bool) -> SeenPassage:
        parts = self._packed.of_characters(one.document, one.text, one.start, one.end)
        steps, epochs, hidden = set(), set(), dict.fromkeys(asked, 0)
        for part, uses in zip(parts, self._batches.uses_of(parts), strict=True):
            for use in uses or ():
                steps.add(use.step)
                epochs.add(use.epoch)
                for place, text in enumerate(part.texts, start=part.start):
                    away = use.shown.input_ids[place] != part.input_ids[place]
                    if text in hidden and use.shown.asked[place] and away:
                        hidden[text] += 1
        standing = [text for part in parts for text in part.texts]
        return SeenPassage(
            text=one.text[one.start : one.end],
            document=one.document,
            exact=exact,
            shared=one.shared,
            uses=len(steps),
            epochs=len(epochs),
            words=tuple(
                AskedWord(word, standing.count(word), times)
                for word, times in hidden.items()
                if word in standing
            ),
        )


def _running(texts: list[str]) -> str:
    """The texts of tokens as running text, near enough to be searched for."""
    if any(text != text.strip() for text in texts):
        return "".join(texts)
    return " ".join(texts).replace(" ##", "")


def _bare(text: str) -> str:
    """A token's text without the marks of a word's beginning or going on."""
    text = text.strip()
    return text.removeprefix("##") if len(text) > 2 else text
