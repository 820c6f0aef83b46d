"""What a training was shown near the texts that its report shows: prompts and samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mlm.asking.artefacts import Asked, AskedText, AskedWord, SeenPassage
from mlm.asking.documents import Documents, Stretch, words_of
from mlm.asking.packed import Packed, packed_parts
from mlm.asking.text_index import TextIndex
from mlm.asking.uses import RunBatches
from mlm.config.pretraining import Masking
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.filters import prepared
from mlm.corpus.split_documents import SplitDocuments
from mlm.evaluation.artefacts import EvaluationFigures, FillMask
from mlm.samples.manifests import Manifest, shards_root
from mlm.samples.masking import masking_plan
from mlm.samples.stored_batches import BatchOrder, ShardFiles
from mlm.tokenizer.encoding import Encoder
from mlm.training.artefacts import Training

#: A larger train split is not searched for the report: each text would take seconds.
LARGEST_SEARCHED = 100_000_000
#: So many passages are named near a prompt; near a sample, which is longer, one.
_NEAR_A_PROMPT = 2


def seen_near(run: str, files: Mapping[str, str], filters: dict, holes: str | None = None) -> Asked:
    """What the training of `run` was shown near its prompts and its best and worst samples.

    `files` are `training`, `evaluation`, `fill_mask`, `corpus`, `manifest` and `tokenizer`,
    `filters` the section corpus.filters that the corpus was made with; `holes` names the file of
    what the run was trained without, if anything. Raises MlmError if a shard is not that of the
    manifest, or holds other documents than the corpus.
    """
    training = Training.read(files["training"])
    size = CorpusSplit.read(files["corpus"]).bytes
    if size > LARGEST_SEARCHED:
        return Asked(run, training.steps, (), size)
    encoder = Encoder.load(files["tokenizer"])
    texts = [
        (kind, prepared(text, filters["normalisation"]).text.strip(), index, asked, most)
        for kind, text, index, asked, most in _texts(files, encoder)
    ]
    corpus = SplitDocuments.described(files["corpus"])
    # For many questions at once an index is worth its making, also on a small text.
    documents = Documents({"train": corpus}, {"train": TextIndex.temporary("train", corpus)})
    stretches, exact = [], []
    for _, text, _, _, most in texts:
        found = documents.exact(text)[:most] if text else []
        exact.append(bool(found))
        stretches.append(found or documents.nearest(text, most))
    manifest = Manifest.read(files["manifest"])
    root = shards_root(manifest, files["manifest"])
    packed = iter(packed_parts([s for found in stretches for s in found], manifest, root, encoder))
    batches = _batches(files, holes, training, manifest, encoder)
    return Asked(
        run,
        training.steps,
        tuple(
            AskedText(
                kind,
                text,
                index,
                len(words_of(text)),
                asked,
                tuple(_passage(one, next(packed), asked, is_exact, batches) for one in found),
            )
            for (kind, text, index, asked, _), found, is_exact in zip(
                texts, stretches, exact, strict=True
            )
        ),
        None,
    )


def _texts(files: Mapping[str, str], encoder: Encoder) -> Iterator[tuple]:
    """Kind, text, index, targets and wanted passages of each prompt with its answer, and sample."""
    for prompt in FillMask.read(files["fill_mask"]).prompts:
        answer = prompt.answers[0]
        yield "prompt", answer.sequence, None, _targets([answer.token.strip()]), _NEAR_A_PROMPT
    special = set(encoder.special_tokens.values())
    samples = EvaluationFigures.read(files["evaluation"]).samples
    for kind, found in (("best", samples.best), ("worst", samples.worst)):
        for sample in found:
            tokens = [token for token in sample.tokens if token.text not in special]
            asked = _targets(_bare(token.text) for token in tokens if token.truth)
            yield kind, _running([token.text for token in tokens]), sample.index, asked, 1


def _batches(
    files: Mapping[str, str],
    holes: str | None,
    training: Training,
    manifest: Manifest,
    encoder: Encoder,
) -> RunBatches:
    """Those of the training, by its record."""
    order = BatchOrder(
        seed=training.seed,
        global_batch_size=training.global_batch_size,
        shuffle_window=training.shuffle_window,
        start_step=0,
        steps=training.steps,
    )
    plan = masking_plan(
        Masking.of_param(training.masking),
        encoder,
        files["tokenizer"],
        training.sequence_length,
        holes=holes,
        manifest=files["manifest"],
    )
    shards = ShardFiles.of(manifest, shards_root(manifest, files["manifest"]))
    return RunBatches(order, shards, plan, training.seed)


def _passage(
    one: Stretch,
    parts: Sequence[Packed],
    asked: Sequence[str],
    exact: bool,
    batches: RunBatches,
) -> SeenPassage:
    steps, epochs, hidden = set(), set(), dict.fromkeys(asked, 0)
    for part, uses in zip(parts, batches.uses_of(parts), strict=True):
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


def _targets(words: Iterable[str]) -> tuple[str, ...]:
    """The different words; marks stand everywhere, and say nothing."""
    return tuple(sorted({word for word in words if words_of(word)}))


def _running(texts: list[str]) -> str:
    """The texts of tokens as running text, near enough to be searched for."""
    if any(text != text.strip() for text in texts):
        return "".join(texts)
    return " ".join(texts).replace(" ##", "")


def _bare(text: str) -> str:
    """A token's text without the marks of a word's beginning or going on."""
    text = text.strip()
    return text.removeprefix("##") if len(text) > 2 else text
