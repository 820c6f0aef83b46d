"""Croissant 1.0 metadata (https://docs.mlcommons.org/croissant/docs/croissant-spec.html) of the
shards, and checksums for `sha256sum -c`."""

import re
from collections.abc import Mapping
from typing import Any

from mlm.config.publish import Publish
from mlm.samples.manifests import Manifest

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
