"""The small run of the training tests in this process, for tests of its step."""

from pathlib import Path

from small_run import LENGTH, small_run, write_inputs

from mlm.samples.manifests import Manifest, Shard


def small_pretraining(
    root: Path, optimizer: str = "muon", accumulated: int = 1, model=(), **pretraining
):
    """A Run of one layer of width 32, on samples of 16 tokens; the rest is of its section,
    and `model` of the section of that name."""
    if not (root / "train.json").exists():
        write_inputs(root)
    how = {"name": optimizer, "gradient_accumulation_steps": accumulated}
    return small_run(root, {"pretraining": {"optimizer": how} | pretraining, "model": dict(model)})[
        0
    ]


def write_manifest_of(path: Path, *, samples: int = 50, shards: int = 4):
    """A manifest file of `shards` shards below results, whose shards need not exist."""
    each, rest = divmod(samples, shards)

    def entry(number: int) -> Shard:
        name, count = f"train-{number:05d}-of-{shards:05d}.tfrecord", each + (number < rest)
        sizes = {"num_samples": count, "num_tokens": count * LENGTH, "num_padding": 0}
        where = {"name": name, "path": f"results/{name}", "block_offsets": (0,)}
        return Shard(**where, **sizes, num_bytes=1, sha256="0" * 64)

    Manifest.of(
        map(entry, range(shards)),
        split="train",
        sequence_length=LENGTH,
        tokenizer_sha256="0" * 64,
        corpus_sha256="0" * 64,
        documents=0,
        special_literals=0,
    ).write(path)
    return path
