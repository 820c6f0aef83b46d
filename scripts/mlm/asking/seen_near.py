"""What a training was shown near the prompts that its report shows."""

from collections.abc import Iterable, Mapping, Sequence

from mlm.asking.artefacts import Asked, AskedText, AskedWord, SeenPassage
from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.passages import Part, UsedBatches, packed_parts
from mlm.asking.text_index import TextIndex
from mlm.config.pretraining import Masking
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.filters import prepared
from mlm.corpus.split_documents import SplitDocuments
from mlm.evaluation.artefacts import FillMask
from mlm.samples.documents_in_samples import document_spans
from mlm.samples.manifests import Manifest, project_root
from mlm.samples.masking import masking_plan
from mlm.samples.split_samples import ShardFiles
from mlm.samples.stored_batches import BatchOrder
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training

#: A larger train split is not searched for the report: each text would take seconds.
LARGEST_SEARCHED = 100_000_000
#: So many passages are named near a prompt.
_NEAR_A_PROMPT = 2


def seen_near(run: str, files: Mapping[str, str], filters: dict) -> Asked:
    """What the training of `run` was shown near its prompts, by its results `files`; `filters` are
    the section corpus.filters of the corpus. MlmError if a shard is not that of the manifest, or
    holds other documents than the corpus."""
    training = Training.read(files["training"])
    size = CorpusSplit.read(files["corpus"]).bytes
    if size > LARGEST_SEARCHED:
        return Asked(run, training.steps, (), size)
    encoder = Encoder.load(files["tokenizer"])
    corpus = SplitDocuments.described(files["corpus"])
    # For many questions at once an index is worth its making, also on a small text.
    documents = Documents({"train": corpus}, {"train": TextIndex.temporary("train", corpus)})
    manifest = Manifest.read(files["manifest"])
    root = project_root(files["manifest"])
    batches = _batches(files, training, manifest, encoder)
    targets, near = [], []
    for prompt in FillMask.read(files["fill_mask"]).prompts:
        answer = prompt.answers[0]
        targets.append(_targets([_bare(answer.token)]))
        text = prepared(answer.sequence, filters["normalisation"]).text.strip()
        exact = documents.exact(text)[:_NEAR_A_PROMPT] if text else []
        near.append((text, bool(exact), exact or documents.nearest(text, _NEAR_A_PROMPT)))
    stretches = [stretch for *_, of_text in near for stretch in of_text]
    spans = document_spans(manifest, root, encoder, {one.document: one.text for one in stretches})
    packed = iter(packed_parts(stretches, spans, manifest, root, encoder))
    found = []
    for asked, (text, exact, stretches) in zip(targets, near, strict=True):
        passages = tuple(
            _passage(one, batches.with_uses(next(packed)), asked, exact) for one in stretches
        )
        found.append(AskedText(text, len(words_of(text)), asked, passages))
    return Asked(run, training.steps, tuple(found), None)


def _batches(
    files: Mapping[str, str], training: Training, manifest: Manifest, encoder: Encoder
) -> UsedBatches:
    """Those of the training, by its record."""
    order = BatchOrder(
        seed=training.seed,
        global_batch_size=training.global_batch_size,
        shuffle_window=training.shuffle_window,
        start_step=0,
        steps=training.steps,
    )
    masking, length = Masking.of_param(training.masking), training.sequence_length
    plan = masking_plan(masking, encoder, files["tokenizer"], length)
    shards = ShardFiles.of(manifest, project_root(files["manifest"]))
    return UsedBatches(order, shards, plan, training.seed, encoder, training.steps)


def _passage(one: Stretch, parts: Sequence[Part], asked: Sequence[str], exact: bool) -> SeenPassage:
    uses = [(part, use) for part in parts for use in part.uses]
    hidden = [
        token.text
        for part, use in uses
        for masked in use.masked
        for token in part.tokens
        if token.place == masked.place and masked.kind != "itself"
    ]
    standing = [token.text for part in parts for token in part.tokens]
    return SeenPassage(
        text=one.passage,
        document=one.document,
        exact=exact,
        shared=one.shared,
        uses=len({use.step for _, use in uses}),
        epochs=len({use.epoch for _, use in uses}),
        words=tuple(
            AskedWord(word, standing.count(word), hidden.count(word))
            for word in asked
            if word in standing
        ),
    )


def _targets(words: Iterable[str]) -> tuple[str, ...]:
    """The different words; punctuation is everywhere and says nothing."""
    return tuple(sorted({word for word in words if words_of(word)}))


def _bare(text: str) -> str:
    """A token of a prompt's answer as the texts of tokens show it, without WordPiece's `##`."""
    text = text.strip()
    return text.removeprefix("##") if len(text) > 2 else text
