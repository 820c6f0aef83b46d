"""A sample of the corpus, carried through the functions of corpus, tokenizer and shards."""

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlm.check.sampled_text import SampledText
from mlm.check.stopwatch import Took, timed
from mlm.config.fields import SPLITS
from mlm.config.resolution import Settings, resolve
from mlm.config.tokenizer import Shards
from mlm.corpus.artefacts import CorpusSplit
from mlm.corpus.corpus_building import build_corpus
from mlm.corpus.file_patterns import used_settings
from mlm.corpus.split_documents import SplitDocuments
from mlm.foundations.errors import MlmError
from mlm.samples.sharding import merged_manifest, write_shard
from mlm.tokenizer.encoding import SPECIAL_NAMES, Encoder
from mlm.tokenizer.pretrained import load_pretrained
from mlm.tokenizer.statistics import split_statistics
from mlm.tokenizer.tokenizer_files import tokenizer_files, write_tokenizer
from mlm.tokenizer.tokenizer_settings import AlphabetTooLarge, CorpusTooSmall, TokenizerSettings
from mlm.tokenizer.training import train_tokenizer
from mlm.tokenizer.training_text import TrainingText
from mlm.tokenizer.unigram_training import word_counts

#: Of ten documents of the sample, which are validation and test.
_DEALT = {8: "validation", 9: "test"}
#: The fewest learned ids that a tokenizer is trained with to see how long that takes.
_FEWEST_IDS = 300


@dataclass
class DataMeasured:
    """What became of the sample; of times, those for all of it.

    `tokenizer` and `manifests` are files of the rehearsal, `vocabulary` the number of ids of a
    tokenizer that is trained on all of train. `ids` is the number of ids that the
    text gives at most, where it does not give those that are asked for: of the sample, and
    `ids_of_all` of the whole train split, estimated where the sample is not all of it.
    """

    tokenizer: Path
    manifests: dict[str, Path]
    text_bytes: int = 0
    kept: float = 1.0
    corpus: Took = field(default_factory=Took)
    parquet_per_byte: float = 0.0
    training: Took = field(default_factory=Took)
    encoding: Took = field(default_factory=Took)
    tokenizer_bytes: int = 0
    vocabulary: int | None = None
    ids: int | None = None
    ids_of_all: int | None = None
    tokens_per_byte: float = 0.0
    sharding: Took = field(default_factory=Took)
    shard_per_token: float = 0.0
    samples: int = 0


def rehearse_data(settings: Settings, text: SampledText, directory: Path) -> DataMeasured:
    """Make corpus, tokenizer and shards of the sample below `directory`, as the rules do of all.

    Raises MlmError as they do, but where only the sample is too small for the vocabulary.
    """
    results = directory / "results"
    tokenizer = results / "tokenizer" / "tokenizer.json"
    manifests = {split: results / "manifests" / f"{split}.json" for split in SPLITS}
    measured = DataMeasured(tokenizer, manifests)
    described = _corpus(settings, text, directory, measured)
    corpora = {split: SplitDocuments.described(described[split]) for split in SPLITS}
    _tokenizer(settings, text, corpora, measured)
    _shards(settings, corpora, described, measured)
    return measured


def _corpus(
    settings: Settings, text: SampledText, directory: Path, measured: DataMeasured
) -> dict[str, str]:
    rows: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, document in enumerate(text.documents):
        content = document.text.encode("utf-8", "replace").decode()
        row = {"text": content, "group": document.group or str(number)}
        rows[_DEALT.get(number % 10, "train")].append(json.dumps(row, ensure_ascii=False))
    if few := [split for split in SPLITS if not rows[split]]:
        raise MlmError(
            f"The corpus has {len(text.documents)} documents, too few for {' and '.join(few)}. Add "
            "text, or look at corpus.files.document_per: what of a file is one document"
        )
    # Much of the time has nothing to do with the length of the text: a tenth of it tells how much.
    short = Took()
    with suppress(MlmError):
        few = {split: lines[: -(-len(lines) // 10)] for split, lines in rows.items()}
        short = _built(settings, text, few, directory / "few")[2] * (10 / 9)
    made, described, took = _built(settings, text, rows, directory)
    least = took * 0.3
    measured.corpus = max(took * (10 / 9) + short * -1, least, key=lambda t: t.cpu)
    measured.text_bytes = sum(len(d.text.encode("utf-8", "replace")) for d in text.documents)
    kept = sum(split.bytes for split in made.values())
    measured.kept = kept / max(1, measured.text_bytes)
    on_disk = sum(file.bytes for split in made.values() for file in split.files)
    measured.parquet_per_byte = on_disk / max(1, kept)
    return described


def _built(
    settings: Settings, text: SampledText, rows: dict[str, list[str]], directory: Path
) -> tuple[dict[str, CorpusSplit], dict[str, str], Took]:
    """The corpus of `rows`, lines of JSON by split: its splits, their files, and the time."""
    own, place = settings["corpus"], directory / "results" / "corpus"
    place.mkdir(parents=True)
    files = {split: [str(place / f"{split}.jsonl")] for split in SPLITS}
    for split, lines in rows.items():
        Path(files[split][0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    sample = {
        "source": "files",
        "files": files,
        "filters": own["filters"],
        "encoding_errors": own["encoding_errors"],
        "group_by": "group" if any(d.group for d in text.documents) else None,
    }
    used = used_settings(resolve({"corpus": sample})["corpus"], 0)
    parquet = {split: [str(place / f"{split}.parquet")] for split in SPLITS}
    described = {split: str(place / f"{split}.json") for split in SPLITS}
    with timed() as took:
        made = build_corpus(used, files, parquet, described)
    return made, described, took


def _tokenizer(
    settings: Settings,
    text: SampledText,
    corpora: dict[str, SplitDocuments],
    measured: DataMeasured,
) -> None:
    section = settings["tokenizer"]
    if section["kind"] == "pretrained":
        loaded = load_pretrained(section["pretrained"]["path"], section["pretrained"]["revision"])
        content, special = loaded.tokenizer, loaded.special_tokens
    else:
        size = text.bytes["train"] * measured.kept if text.bytes is not None else None
        wanted = TokenizerSettings.of(section, size)
        special = dict(zip(SPECIAL_NAMES, wanted.special_tokens, strict=True))
        content = _trained(wanted, text, corpora["train"], measured)
    files = tokenizer_files(content, special, section["unknown_literal"])
    write_tokenizer(measured.tokenizer.parent, files)
    measured.tokenizer_bytes = sum(len(content.encode()) for content in files.values())
    encoder = Encoder(content, special, section["unknown_literal"])
    with timed() as measured.encoding:
        for corpus in corpora.values():
            split_statistics(encoder, corpus.texts())


def _trained(
    wanted: TokenizerSettings,
    text: SampledText,
    corpus: SplitDocuments,
    measured: DataMeasured,
) -> dict:
    """A tokenizer.json of as many ids as are asked for, and how long training one of all takes.

    The trainers see each word once, so that they take as long as there are characters in different
    words; and sentencepiece goes through them once for each time that it throws away a quarter of
    its pieces, which are as many as these characters. So the sample's vocabulary is smaller, too.
    """
    growth = _growth_of_words(wanted, text, corpus, measured)
    measured.vocabulary = wanted.vocabulary_size
    # The sample is smaller than the text that decides.
    by_itself, wanted = wanted.by_itself, replace(wanted, by_itself=False)
    smaller = wanted.reserved + round((wanted.vocabulary_size - wanted.reserved) / growth)
    fitting = wanted
    try:
        with timed() as took:
            content = train_tokenizer(corpus, wanted).tokenizer
    except AlphabetTooLarge as error:
        if not by_itself:
            raise
        return _trained(error.fitting(wanted), text, corpus, measured)
    except CorpusTooSmall as error:
        measured.ids = error.ids
        measured.ids_of_all = round(error.ids * growth)
        if by_itself:
            measured.vocabulary = min(measured.vocabulary, measured.ids_of_all)
        # Models have the size that was asked for all the same: what no text comes to fills it.
        fitting = replace(wanted, vocabulary_size=error.ids)
        with timed() as took:
            content = train_tokenizer(corpus, fitting).tokenizer
        content = _filled(content, wanted.vocabulary_size)
    smaller = max(_FEWEST_IDS, min(smaller, fitting.vocabulary_size))
    # An alphabet may be larger than that.
    if smaller < fitting.vocabulary_size:
        with suppress(MlmError), timed() as took:
            train_tokenizer(corpus, replace(wanted, vocabulary_size=smaller))
    measured.training = took * growth
    return content


def _growth_of_words(
    wanted: TokenizerSettings, text: SampledText, corpus: SplitDocuments, measured: DataMeasured
) -> float:
    """By what factor all of train has more characters in its different words than the sample."""

    def characters(sentences) -> int:
        return max(1, sum(map(len, word_counts(sentences, wanted))))

    sentences = list(TrainingText(corpus, wanted))
    of_sample = characters(sentences)
    if text.whole is not None:
        growth = characters(line for t in text.whole for line in t.split("\n")) / of_sample
    elif text.bytes is None:
        growth = 1.0
    else:
        # Heaps' law: new words become rarer, by a power of the length of the text.
        power = math.log2(of_sample / characters(sentences[::2]))
        read = min(text.bytes["train"] * measured.kept, wanted.max_training_bytes)
        size = sum(len(s.encode()) for s in sentences)
        growth = (max(1.0, read / max(1, size))) ** min(1.0, power)
    return max(1.0, growth)


def _filled(tokenizer: dict, ids: int) -> dict:
    """`tokenizer` with pieces that no text holds, up to `ids`."""
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(len(vocabulary), ids):
        piece = f"\ufdd1{number}"
        if isinstance(vocabulary, list):
            vocabulary.append([piece, -99.0])
        else:
            vocabulary[piece] = number
    return tokenizer


def _shards(
    settings: Settings,
    corpora: dict[str, SplitDocuments],
    described: dict[str, str],
    measured: DataMeasured,
) -> None:
    encoder = Encoder.load(measured.tokenizer)
    root = measured.tokenizer.parents[2]
    section = Shards.of_param(settings["shards"])
    tokens = size = 0
    for split, corpus in corpora.items():
        shard = f"results/shards/{split}/{split}-00000-of-00001.tfrecord"
        (root / shard).parent.mkdir(parents=True)
        with timed() as took:
            made = write_shard(
                split, 0, 1, section, encoder, measured.tokenizer, corpus, root / shard
            )
        measured.sharding += took
        about = CorpusSplit.read(described[split])
        manifest = merged_manifest(split, [(shard, made)], about, measured.tokenizer, root)
        manifest.write(measured.manifests[split])
        tokens, size = tokens + made.num_tokens, size + about.bytes
        measured.shard_per_token += made.num_bytes
        if split == "train":
            measured.samples = made.num_samples
    measured.tokens_per_byte = tokens / max(1, size)
    measured.shard_per_token /= max(1, tokens)
