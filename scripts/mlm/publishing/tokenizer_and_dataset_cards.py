"""The cards of a published tokenizer and of published shards, without text of the corpus."""

from huggingface_hub import DatasetCardData, ModelCardData

from mlm.config.corpus import Corpus
from mlm.config.publish import Publish
from mlm.corpus.artefacts import HubSource
from mlm.samples.manifests import Manifest
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.model_card import SOURCES, card, card_table


def published_source(publish: Publish, corpus: Corpus) -> str:
    """The origin of the text: `publish.source`, else the corpus in words."""
    source = publish.source or SOURCES[corpus.source]
    if corpus.source == "hub" and not publish.source:
        hub = corpus.hub
        source = str(HubSource("hub", "train", str(hub.dataset), hub.config, hub.revision))
    return " ".join(source.split())


def tokenizer_card(
    publish: Publish, source: str, tokens: dict[str, str], stats: TokenizerStatistics
) -> str:
    """README.md of the tokenizer with its special tokens `tokens` by name; `stats` has figures of
    the text that it was made for."""
    special = [
        (name, f"`{text}`") for name, text in sorted(tokens.items()) if isinstance(text, str)
    ]
    rows = [
        (split, f"{s.tokens:,}", f"{s.tokens_per_word:.3f}", f"{s.unknown_rate:.4%}")
        for split, s in stats.splits.items()
    ]
    return card(
        ModelCardData(
            license=publish.license,
            language=publish.language,
            library_name="transformers",
            tags=["tokenizer", "masked-lm"],
        ),
        f"# {str(publish.tokenizer).split('/')[1]}",
        f"A tokenizer for masked language models: {stats.kind}, {stats.vocabulary_size:,} ids, for "
        f"{source}.",
        "## Use",
        "```python\nfrom transformers import AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{publish.tokenizer}")\n```',
        "## Special tokens",
        card_table(["", ""], special),
        "## On its corpus",
        card_table(["split", "tokens", "tokens a word", "unknown"], rows),
    )


def dataset_card(publish: Publish, source: str, manifests: dict[str, Manifest]) -> str:
    """README.md of the shards: their content, how to read them, and their source."""
    first = next(iter(manifests.values()))
    rows = [
        (split, *(f"{n:,}" for n in (len(m.shards), m.num_samples, m.num_tokens, m.num_padding)))
        for split, m in manifests.items()
    ]
    return card(
        DatasetCardData(
            license=publish.license,
            language=publish.language,
            task_categories=["fill-mask"],
            tags=["tfrecord", "token-ids"],
            viewer=False,
        ),
        f"# {str(publish.dataset).split('/')[1]}",
        f"Token ids of {source}, in samples of {first.sequence_length} tokens, for "
        "training masked language models.",
        card_table(["split", "shards", "samples", "tokens", "padding"], rows),
        "Each record holds `input_ids` and `attention_mask`, int64, "
        f"{first.sequence_length} of each, and `span_groups` and `span_lengths`: which runs of its "
        f"tokens are of one group ({first.group_by}). `manifests/` names every shard with its "
        "counts and sha256; `tokenizer/` holds the tokenizer whose ids these are "
        f"(tokenizer.json: sha256 `{first.tokenizer_sha256}`).",
        "## Use",
        _reading(str(publish.dataset), first.sequence_length),
        "## Source and licence",
        f"From {source}. Licence: {publish.license}. The tokenizer turns the token ids back into "
        "text, so the terms of the text apply to them.",
    )


def _reading(repository: str, length: int) -> str:
    """Code that reads the train split; a test runs it."""
    return f"""```python
import json
from pathlib import Path

import tensorflow as tf
from huggingface_hub import snapshot_download

root = Path(snapshot_download("{repository}", repo_type="dataset"))
manifest = json.loads((root / "manifests" / "train.json").read_text())
files = [str(root / shard["path"]) for shard in manifest["shards"]]
feature = tf.io.FixedLenFeature(({length},), tf.int64)
features = {{"input_ids": feature, "attention_mask": feature}}
records = tf.data.TFRecordDataset(files)
samples = records.map(lambda record: tf.io.parse_single_example(record, features))
```"""
