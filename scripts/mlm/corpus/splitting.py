"""Which split a document or a group of documents belongs to, by a keyed hash.

A hash, and no random stream: a document's split depends on the seed and the document alone,
so adding documents moves no other one from train to test.
"""

import hashlib


def _hash(seed: int, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=b"%d" % seed).digest(), "big")


def carve(document: bytes, seed: int, shares: dict[str, float]) -> str:
    """The split of `document` (its UTF-8 bytes): one of `shares`' keys, else `train`.

    `shares` gives the expected fraction of the documents by split. The unit interval is laid
    out in the order test, validation, train. Equal documents land in the same split.
    """
    position = _hash(seed, document) / 2**64
    for split in sorted(shares):
        position -= shares[split]
        if position < 0:
            return split
    return "train"


def split_groups(groups: list[str], seed: int, shares: dict[str, float]) -> dict[str, list[str]]:
    """`groups` (names) by split, each in exactly one: whole groups, never a part of one.

    Each split of `shares` takes its fraction of the groups, rounded, but at least one; the
    rest is `train`. The order inside a split is that of `groups`. Which groups go where
    depends on the seed and the names, not on their order.
    """
    waiting = sorted(groups, key=lambda group: (_hash(seed, group.encode("utf-8")), group))
    owner = {}
    for split in sorted(shares):
        count = max(1, round(shares[split] * len(groups)))
        owner.update(dict.fromkeys(waiting[:count], split))
        waiting = waiting[count:]
    result: dict[str, list[str]] = {split: [] for split in ("train", *sorted(shares))}
    for group in groups:
        result[owner.get(group, "train")].append(group)
    return result
