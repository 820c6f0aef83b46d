"""Sections of the report about the text and what was made of it."""

from mlm.corpus.artefacts import MixSource, TakenByRule
from mlm.foundations.typed_artefacts import as_json
from mlm.report.phrasing import MOST, source_in_words, whole_source
from mlm.report.report_inputs import Results
from mlm.report.run_comparison import flattened
from mlm.report.shown_samples import preview_pieces, special_tokens


def corpus(results: Results) -> dict | None:
    """Documents, size and what the filters removed, by split."""
    if not results.corpus:
        return None
    splits = results.corpus.values()
    whole = sum(split.documents for split in splits) or 1
    reasons = dict.fromkeys(reason for split in splits for reason in split.filters)
    mixes = [split.source for split in splits if isinstance(split.source, MixSource)]
    return {
        "rows": splits,
        "mix": list(zip(*(mix.sources for mix in mixes), strict=True)),
        "shares": [split.documents / whole for split in splits],
        "removed": [reason for reason in reasons if reason not in ("read", "kept")],
        "rules": _rules({name: c.rules for name, c in results.corpus.items() if c.rules}),
        "near": [split for split in splits if split.near_duplicates],
        "source": source_in_words(whole_source(results)),
        "details": _source_details({n: as_json(c.source) for n, c in results.corpus.items()}),
    }


def _source_details(sources: dict[str, dict]) -> dict[str, object]:
    """What is known of the sources by split; what is the same for all splits stands once."""
    by_split = {split: flattened(source) for split, source in sources.items()}
    details: dict[str, object] = {}
    for key in dict.fromkeys(key for flat in by_split.values() for key in flat):
        found = [flat.get(key) for flat in by_split.values()]
        if all(value == found[0] for value in found):
            details[key] = found[0]
        else:
            details |= {
                f"{split}.{key}": flat[key] for split, flat in by_split.items() if key in flat
            }
    return details


def _rules(by_split: dict[str, dict[str, TakenByRule]]) -> list[dict]:
    """What each rule took of the splits, and its samples, for the rules that are on."""
    return [
        {
            "name": rule.replace(".", ": ", 1),
            "taken": {split: rules[rule] for split, rules in by_split.items()},
            "samples": [
                (split, sample)
                for split, rules in by_split.items()
                for sample in rules[rule].samples
            ],
        }
        for rule in next(iter(by_split.values()), {})
    ]


def tokenizer(results: Results) -> dict | None:
    """Kind and size of the tokenizer, and how well it fits each split."""
    if results.tokenizer is None:
        return None
    return {
        "content": results.tokenizer,
        "rows": {split: results.tokenizer.splits[split] for split in results.corpus},
        "figures": ["piece_lengths"],
        "special": special_tokens(results),
    }


def shards(results: Results) -> dict:
    """Samples, tokens and padding by split, and each shard's digest."""
    return {
        "rows": results.manifests.values(),
        "most": MOST,
        "left_out": shards_left_out(results),
        # Of shards that were made elsewhere nobody here knows what was dropped.
        "packed_here": bool(results.corpus),
    }


def shards_left_out(results: Results) -> int:
    """How many shards are beyond the first MOST of their split, which the page names."""
    return sum(max(0, len(m.shards) - MOST) for m in results.manifests.values())


def preview(results: Results) -> dict | None:
    """Masked samples. Runs that show the same ones are put together."""
    special = special_tokens(results)
    groups: list[dict] = []
    for run in results.runs:
        found = run.preview.samples if run.preview else []
        samples = [preview_pieces(s, special) for s in found]
        same = next((g for g in groups if g["samples"] == samples), None)
        if same:
            same["runs"].append(run.name)
        elif samples:
            groups.append({"runs": [run.name], "samples": samples})
    return {"groups": groups} if groups else None
