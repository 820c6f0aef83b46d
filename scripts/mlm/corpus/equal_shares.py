"""Equal shares of a split's documents, of files and shards; light, as Snakemake imports it."""


def document_range(documents: int, share: int, shares: int) -> range:
    """The documents of share `share` of `shares`: contiguous, sizes differing by one at most."""
    return range(documents * share // shares, documents * (share + 1) // shares)


def overlapping(share: int, shares: int, others: int) -> range:
    """Which of `others` equal shares can have documents of `share` of `shares`, of any number."""
    return range(share * others // shares, -(-(share + 1) * others // shares))


def file_name(split: str, share: int, shares: int) -> str:
    """What the Parquet file with share `share` of a split's documents is called."""
    return f"{split}.parquet" if shares == 1 else f"{split}-{share:05d}-of-{shares:05d}.parquet"
