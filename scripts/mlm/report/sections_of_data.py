"""Sections of the report about the text and what was made of it."""

from mlm.report.phrasing import MOST, source_in_words
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import flattened
from mlm.report.shown_samples import preview_pieces, special_tokens

SPLITS = ("train", "validation", "test")


def corpus(results: Results) -> dict | None:
    """Documents, size and what the filters removed, by split."""
    if not results.corpus:
        return None
    rows = []
    whole = sum(a.content["documents"] for a in results.corpus.values()) or 1
    removed: list[str] = []
    for split, artefact in results.corpus.items():
        content = artefact.content
        filters = content.get("filters") or {}
        removed += [k for k in filters if k not in removed and k not in ("read", "kept")]
        encoding = content.get("encoding") or {}
        rows.append(
            {
                "split": split,
                "share": content["documents"] / whole,
                "documents": content["documents"],
                "groups": content.get("groups"),
                "group_by": content.get("group_by"),
                "words": content.get("words"),
                "characters": content.get("characters"),
                "bytes": content["bytes"],
                "filters": filters,
                "replaced": encoding.get("replaced_bytes"),
                "nul": encoding.get("nul_bytes"),
            }
        )
    source = next(iter(results.corpus.values())).content["source"]
    return {
        "rows": rows,
        "removed": removed,
        "source": source_in_words(source),
        "details": flattened({s: a.content["source"] for s, a in results.corpus.items()}),
    }


def tokenizer(results: Results) -> dict | None:
    """Kind and size of the tokenizer, and how well it fits each split."""
    if results.tokenizer is None:
        return None
    content = results.tokenizer.content
    rows = [{"split": s, **content["splits"][s]} for s in SPLITS if s in content["splits"]]
    return {
        "content": content,
        "rows": rows,
        "frequent": content.get("most_frequent") or [],
        "figures": ["piece_lengths"] if content.get("pieces_by_length") else [],
        "special": special_tokens(results),
    }


def shards(results: Results) -> dict:
    """Samples, tokens and padding by split, and each shard's digest."""
    rows = [{"split": split, **artefact.content} for split, artefact in results.manifests.items()]
    return {
        "rows": rows,
        "most": MOST,
        "left_out": shards_left_out(results),
        # Of shards that were made elsewhere nobody here knows what was dropped.
        "packed_here": bool(results.corpus),
    }


def shards_left_out(results: Results) -> int:
    """How many shards are beyond the first MOST of their split, which the page names."""
    return sum(max(0, len(a.content["shards"]) - MOST) for a in results.manifests.values())


def preview(results: Results) -> dict | None:
    """Masked samples. Runs that show the same ones are put together."""
    special = special_tokens(results)
    groups: list[dict] = []
    for run in results.runs:
        found = run.preview.content["samples"] if run.preview else []
        samples = [preview_pieces(s, special) for s in found]
        same = next((g for g in groups if g["samples"] == samples), None)
        if same:
            same["runs"].append(run.name)
        elif samples:
            groups.append({"runs": [run.name], "samples": samples})
    return {"groups": groups} if groups else None
