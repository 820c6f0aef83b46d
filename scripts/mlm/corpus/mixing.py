"""The sources of a corpus, of which a mix (`corpus.mix`) has several.

Light on purpose: Snakemake imports it to plan.
"""

from collections.abc import Mapping

#: Keys of the section `corpus` that each source of a mix has for itself.
OWN_KEYS = ("source", "files", "hub", "text_column", "group_by", "group_per")
#: Keys of `corpus.filters` that concern all documents together.
OF_ALL = ("deduplicate", "remove_leakage", "near_duplicates")


def sections(corpus: Mapping) -> dict[str | None, dict]:
    """The section `corpus` as each source has it, by its name, in the order of the names.

    Of a corpus that is no mix: as it is, by None.
    """
    if corpus["source"] != "mix":
        return {None: dict(corpus)}
    common = {key: value for key, value in corpus["filters"].items() if key in OF_ALL}
    return {
        name: dict(corpus)
        | {key: own[key] for key in OWN_KEYS}
        | {"filters": (own["filters"] or corpus["filters"]) | common}
        for name, own in sorted(corpus["mix"].items())
    }
