"""The cards of a published tokenizer and of published shards; a model's is model_card's.

Follows the Hub's documentation of dataset cards and model cards. A card holds numbers, names
and words of the configuration, and no text of the corpus.
"""

from huggingface_hub import DatasetCardData, ModelCardData

from mlm.config.corpus import Corpus
from mlm.config.publish import Publish
from mlm.samples.manifests import Manifest
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.model_card import SOURCES, card_text


def source_in_words(publish: Publish, corpus: Corpus) -> str:
    """Where the text comes from: `publish.source`, else what the corpus says of itself."""
    source = publish.source or SOURCES[corpus.source]
    if corpus.source == "hub" and not publish.source:
        hub = corpus.hub
        config = f", configuration {hub.config}" if hub.config else ""
        source = f"the dataset {hub.dataset} of the Hugging Face Hub{config} at {hub.revision[:12]}"
    return " ".join(source.split())


def tokenizer_card(
    publish: Publish, source: str, tokens: dict[str, str], stats: TokenizerStatistics | None
) -> str:
    """README.md of the tokenizer. `tokens` are its special tokens by name; `stats` has figures of
    the text that it was made for."""
    header = ModelCardData(
        license=publish.license,
        library_name="transformers",
        tags=["tokenizer", "masked-lm"],
        **({"language": publish.language} if publish.language else {}),
    ).to_yaml()
    of_what = f"{stats.kind}, {stats.vocabulary_size:,} ids, " if stats else ""
    parts = [
        f"# {publish.tokenizer.split('/')[1]}",
        f"A tokenizer for masked language models: {of_what}for {source}.",
        "## Use",
        "```python\nfrom transformers import AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{publish.tokenizer}")\n```',
        "## Special tokens",
        "| | |\n|---|---|\n"
        + "\n".join(f"| {name} | `{text}` |" for name, text in sorted(tokens.items())),
    ]
    if stats:
        rows = [
            f"| {split} | {found.tokens:,} | {found.tokens_per_word:.3f} "
            f"| {found.unknown_rate:.4%} |"
            for split, found in stats.splits.items()
        ]
        head = "| split | tokens | tokens a word | unknown |\n|---|---|---|---|\n"
        parts += ["## On its corpus", head + "\n".join(rows)]
    return card_text(header, parts)


def dataset_card(publish: Publish, source: str, manifests: dict[str, Manifest]) -> str:
    """README.md of the shards: what they hold, how to read them, where they come from."""
    first = next(iter(manifests.values()))
    size = sum(shard.num_bytes for m in manifests.values() for shard in m.shards)
    grouped = first.group_by is not None
    columns = ("input_ids", "attention_mask")
    columns += ("span_groups", "span_lengths") if grouped else ()
    info = {
        "features": [{"name": name, "sequence": "int64"} for name in columns],
        "splits": [
            {
                "name": split,
                "num_bytes": sum(shard.num_bytes for shard in manifest.shards),
                "num_examples": manifest.num_samples,
            }
            for split, manifest in manifests.items()
        ],
        "download_size": size,
        "dataset_size": size,
    }
    header = DatasetCardData(
        license=publish.license,
        task_categories=["fill-mask"],
        tags=["tfrecord", "token-ids"],
        dataset_info=info,
        viewer=False,
        **({"language": publish.language} if publish.language else {}),
    ).to_yaml()
    rows = [
        f"| {split} | {len(m.shards):,} | {m.num_samples:,} | {m.num_tokens:,} "
        f"| {m.num_padding:,} |"
        for split, m in manifests.items()
    ]
    groups = ""
    if grouped:
        groups = (
            ", and `span_groups` and `span_lengths`: which runs of its tokens are of one group "
            f"({first.group_by})"
        )
    digest = first.tokenizer_sha256
    made_with = f" (tokenizer.json: sha256 `{digest}`)" if digest else ""
    parts = [
        f"# {publish.dataset.split('/')[1]}",
        f"Token ids of {source}, in samples of {first.sequence_length} tokens, for "
        "training masked language models.",
        "| split | shards | samples | tokens | padding |\n|---|---|---|---|---|\n"
        + "\n".join(rows),
        "Each record holds `input_ids` and `attention_mask`, int64, "
        f"{first.sequence_length} of each"
        f"{groups}. `manifests/` names every shard with its counts and "
        f"sha256; `tokenizer/` holds the tokenizer whose ids these are{made_with}.",
        "## Use",
        _reading(publish.dataset, first),
        "## Source and licence",
        f"From {source}. Licence: {publish.license}. The tokenizer turns the token ids back into "
        "text, so the terms of the text apply to them.",
    ]
    return card_text(header, parts)


def _reading(repository: str, manifest: Manifest) -> str:
    """Code that reads the train split; a test runs it."""
    length = manifest.sequence_length
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
