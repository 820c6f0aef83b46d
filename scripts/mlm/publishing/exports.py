"""Results in the formats of those who must account for a model: Croissant 1.0 for the shards,
a CycloneDX 1.6 bill of materials for a model, and checksums for `sha256sum -c`.

Sources: https://docs.mlcommons.org/croissant/docs/croissant-spec.html and
https://cyclonedx.org/docs/1.6/json/.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any

from mlm.config.publish import Publish, inherited_licence
from mlm.samples.manifests import Manifest
from mlm.training.artefacts import Training

_PACKAGE = re.compile(r"^([\w.-]+)==(\S+)[^\n]*\n((?: +--hash=sha256:\w+[ \\]*\n?)+)", re.MULTILINE)
#: Names of Croissant's own vocabulary, beside schema.org's, as its context gives them.
_TERMS = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty"),
    *("fileSet", "format", "includes", "jsonPath", "key", "md5", "parentField", "path"),
    *("recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
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
} | {term: f"cr:{term}" for term in _TERMS}


def croissant(
    title: str, source: str, section: Publish, manifests: Mapping[str, Manifest]
) -> dict[str, Any]:
    """Metadata of the shards of all splits as JSON-LD; paths are relative to the project's root."""
    shards = [(split, shard) for split, manifest in manifests.items() for shard in manifest.shards]
    counts = ", ".join(f"{m.num_samples:,} of {split}" for split, m in manifests.items())
    length = next(iter(manifests.values())).sequence_length
    found: dict[str, Any] = {
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
            for split, shard in shards
        ],
    }
    if section.dataset:
        found["url"] = f"https://huggingface.co/datasets/{section.dataset}"
    if section.language:
        found["inLanguage"] = section.language
    return found


def bill_of_materials(
    training: Training, source: str, section: Publish, corpus: Mapping[str, str], lock: str
) -> dict[str, Any]:
    """What a model consists of, as CycloneDX: the model, the checkpoint that it started from, the
    text (`corpus` is the sha256 of each of its files) and the packages of `lock`, a requirements
    file with hashes."""
    weights, base = training.digests.model, training.warm_start
    licence = inherited_licence(section.license, base and base.licence)
    text = {
        "type": "data",
        "bom-ref": "corpus",
        "name": source,
        "data": [{"type": "dataset", "name": path} for path in sorted(corpus)],
        "hashes": [{"alg": "SHA-256", "content": digest} for _, digest in sorted(corpus.items())],
    }
    settings = {
        **{f"masking.{key}": value for key, value in training.masking.items()},
        **{f"optimizer.{key}": value for key, value in training.optimizer.items()},
        **{key: getattr(training, key) for key in ("engine", "precision", "seed", "steps")},
        **{f"sha256.{key}": value for key, value in training.digests.manifests.items()},
        "sha256.tokenizer": training.digests.tokenizer,
        "sha256.code": training.code,
    }
    final = training.final
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": training.run,
        "version": weights[:12],
        "hashes": [{"alg": "SHA-256", "content": weights}],
        "licenses": [{"license": {"name": licence}}],
        "modelCard": {
            "modelParameters": {
                "approach": {"type": "self-supervised"},
                "task": "fill-mask",
                "architectureFamily": "transformer encoder",
                "modelArchitecture": training.model_type,
                "datasets": [{"ref": "corpus"}],
            },
            "quantitativeAnalysis": {
                "performanceMetrics": [
                    {"type": "loss", "value": str(final.validation_loss), "slice": "validation"},
                    {"type": "accuracy", "value": str(final.validation_accuracy)}
                    | {"slice": "validation"},
                ]
            },
        },
        "properties": [
            {"name": f"training.{key}", "value": str(value)} for key, value in settings.items()
        ],
    }
    if base:
        ancestor: dict[str, Any] = {
            "type": "machine-learning-model",
            "bom-ref": "checkpoint",
            "name": base.checkpoint,
            "hashes": [{"alg": "SHA-256", "content": base.sha256}],
        }
        if base.licence:
            ancestor["licenses"] = [{"license": {"name": base.licence}}]
        model["pedigree"] = {"ancestors": [ancestor]}
    packages = [_package(*match.groups()) for match in _PACKAGE.finditer(lock)]
    needed = [package["bom-ref"] for package in packages]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # From the weights, so that equal models have equal bills.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, weights).urn,
        "version": 1,
        "metadata": {"component": model},
        "components": [text, *packages],
        "dependencies": [
            {"ref": "model", "dependsOn": ["corpus", *needed]},
            *({"ref": ref} for ref in ("corpus", *needed)),
        ],
    }


def _package(name: str, version: str, hashes: str) -> dict[str, Any]:
    """A package, with the digests of all the files that its lock accepts."""
    digests = re.findall(r"sha256:(\w+)", hashes)
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{name}/{version}/",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
            }
        ],
    }


def checksums(digests: Mapping[str, str]) -> str:
    """Lines for `sha256sum -c`, by path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(digests.items()))
