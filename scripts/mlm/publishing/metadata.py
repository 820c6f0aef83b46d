"""Descriptions of published data, without text of the corpus: cards of a tokenizer and of shards,
Croissant 1.0 (https://docs.mlcommons.org/croissant/docs/croissant-spec.html), and checksums."""

import re
from collections.abc import Mapping
from typing import Any

from huggingface_hub import DatasetCardData, ModelCardData

from mlm.config.corpus import Corpus
from mlm.config.publish import Publish
from mlm.corpus.artefacts import HubSource
from mlm.samples.manifests import Manifest
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.model_card import SOURCES, card, card_table

_TERMS = """citeAs column equivalentProperty extract field fileObject fileProperty fileSet format
    includes jsonPath key md5 parentField path recordSet references regex repeated replace
    samplingRate separator source subField transform"""
#: The context that Croissant prescribes.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "isLiveDataset": "cr:isLiveDataset",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
} | {term: f"cr:{term}" for term in _TERMS.split()}


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
    """README.md of the tokenizer, with its special `tokens` by name and figures from `stats`."""
    special = [(k, f"`{text}`") for k, text in sorted(tokens.items()) if isinstance(text, str)]
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


def croissant(
    title: str, source: str, section: Publish, manifests: Mapping[str, Manifest]
) -> dict[str, Any]:
    """Metadata of the shards of all splits as JSON-LD; paths are relative to the project's root."""
    counts = ", ".join(f"{m.num_samples:,} of {split}" for split, m in manifests.items())
    length = next(iter(manifests.values())).sequence_length
    metadata: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": re.sub(r"[^\w.-]+", "-", title).strip("-"),
        "description": f"Tokenised text for masked language modelling: samples of {length} tokens "
        f"({counts}) as TFRecord files, with the features input_ids and attention_mask (int64). "
        f"Source: {source}.",
        "license": section.license,
        "isLiveDataset": False,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": shard.name,
                "name": shard.name,
                "description": f"{shard.num_samples:,} samples of {split}",
                "contentUrl": shard.path,
                "contentSize": f"{shard.num_bytes} B",
                "encodingFormat": "application/x-tfrecord",
                "sha256": shard.sha256,
            }
            for split, manifest in manifests.items()
            for shard in manifest.shards
        ],
    }
    if section.dataset:
        metadata["url"] = f"https://huggingface.co/datasets/{section.dataset}"
    if section.language:
        metadata["inLanguage"] = section.language
    return metadata


def checksums(digests: Mapping[str, str]) -> str:
    """Lines for `sha256sum -c`, by path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(digests.items()))
