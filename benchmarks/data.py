"""How fast text becomes shards: one command, and the ratios of one run.

    python benchmarks/data.py                 times, on 20 MB of text
    python benchmarks/data.py --memory        peak memory, on 20 MB and on 500 MB of text

Three processes are timed on the same text with the same tokenizer:
  shards     what the rule `shard` does: tokenise, pack, write one TFRecord file
  encode     `encode_batch_fast` of the tokenizers library and nothing else
  published  a preparation script as they are usually written: `datasets.map` with the
             tokenizer, `group_texts`, one `tf.train.Example` a sample
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

SEQUENCE_LENGTH = 128
READ_BATCH = 1000
LIMIT_ENCODE, LIMIT_PUBLISHED, LIMIT_MEMORY = 1.6, 1 / 3, 1.2


def paragraphs_for(megabytes: float) -> Iterator[list[str]]:
    """Batches of the embedded corpus's paragraphs, shuffled anew on each pass, up to a size."""
    from mlm.corpus.embedded_corpus import paragraphs, speeches

    texts = [p for speech in speeches().values() for p in paragraphs(speech)]
    left, order, batch = megabytes * 1e6, random.Random(0), []
    while left > 0:
        order.shuffle(texts)
        for text in texts:
            batch.append(text)
            left -= len(text.encode())
            if len(batch) == READ_BATCH or left <= 0:
                yield batch
                batch = []
            if left <= 0:
                return


def write_corpus(path: Path, megabytes: float) -> None:
    """A parquet file as the corpus stage writes it, of about `megabytes` of text."""
    import pyarrow as pa

    from mlm.corpus.corpus_writing import CorpusWriter
    from mlm.corpus.document_groups import OWN

    writer = CorpusWriter(path, OWN)
    for batch in paragraphs_for(megabytes):
        texts = pa.array(batch, pa.string())
        writer.write(pa.record_batch({"text": texts, "group": pa.nulls(len(batch), pa.string())}))
    writer.close()


def _documents(corpus: Path):
    import pyarrow.parquet as pq

    from mlm.corpus.split_documents import SplitDocuments

    texts = pq.read_table(corpus, columns=["text"])["text"]
    return SplitDocuments([(corpus, len(texts))], sum(len(t.as_py().encode()) for t in texts))


def write_default_tokenizer(corpus: Path, directory: Path) -> None:
    """Train the tokenizer that config.yaml describes, on a sample, and save it."""
    from mlm.config.resolution import resolve
    from mlm.config.tokenizer import Tokenizer
    from mlm.tokenizer.tokenizer_files import write_tokenizer
    from mlm.tokenizer.training import train_tokenizer

    sampled = {"tokenizer": {"max_training_bytes": 5_000_000}}
    config = resolve(sampled)
    settings = Tokenizer.of_param(config["tokenizer"])
    special = settings.special_tokens.model_dump()
    trained = train_tokenizer(_documents(corpus), settings)
    write_tokenizer(directory, trained.tokenizer, special, None)


def run_shards(corpus: Path, directory: Path) -> dict:
    """One shard of the whole corpus, as the rule makes it."""
    # The library loads what it needs on first use; that counts as import here.
    import tokenizers  # noqa: F401

    from mlm.config.tokenizer import Shards
    from mlm.samples.sharding import write_shard
    from mlm.tokenizer.encoding import Encoder

    start = time.perf_counter()
    summary = write_shard(
        *("train", 0, 1),
        Shards(sequence_length=SEQUENCE_LENGTH, read_batch=READ_BATCH),
        Encoder.load(directory / "tokenizer.json"),
        directory / "tokenizer.json",
        _documents(corpus),
        directory / "shards.tfrecord",
    )
    return {"seconds": time.perf_counter() - start, "tokens": summary.num_tokens}


def run_encode(corpus: Path, directory: Path) -> dict:
    """The tokenizer alone, on texts that lie in memory, in one call."""
    import pyarrow.parquet as pq
    import tokenizers

    texts = pq.read_table(corpus).column("text").to_pylist()
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    start = time.perf_counter()
    encoded = tokenizer.encode_batch_fast(texts)
    return {"seconds": time.perf_counter() - start, "tokens": sum(map(len, encoded))}


def run_published(corpus: Path, directory: Path) -> dict:
    """A preparation script in the usual manner; its grouping drops each batch's tail."""
    os.environ.update(
        HF_HOME=str(directory / "cache"), HF_HUB_OFFLINE="1", TF_CPP_MIN_LOG_LEVEL="3"
    )
    import itertools

    import datasets
    import tensorflow as tf
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    start = time.perf_counter()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"),
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="[MASK]",
    )
    tokenizer.model_max_length = sys.maxsize

    def tokenize(batch):
        return tokenizer(batch["text"], return_token_type_ids=False)

    def group_texts(batch):
        joined = {key: list(itertools.chain(*batch[key])) for key in batch}
        total = len(joined["input_ids"]) // SEQUENCE_LENGTH * SEQUENCE_LENGTH
        return {
            key: [values[i : i + SEQUENCE_LENGTH] for i in range(0, total, SEQUENCE_LENGTH)]
            for key, values in joined.items()
        }

    data = datasets.Dataset.from_parquet(str(corpus), cache_dir=str(directory / "cache"))
    data = data.map(tokenize, batched=True, remove_columns=["text", "group"])
    data = data.map(group_texts, batched=True)
    count = 0
    with tf.io.TFRecordWriter(str(directory / "published.tfrecord")) as writer:
        for sample in data:
            features = {
                key: tf.train.Feature(int64_list=tf.train.Int64List(value=sample[key]))
                for key in ("input_ids", "attention_mask")
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
            count += SEQUENCE_LENGTH
    return {"seconds": time.perf_counter() - start, "tokens": count}


PARTS = {"shards": run_shards, "encode": run_encode, "published": run_published}


def measured(part: str, corpus: Path, directory: Path) -> dict:
    """Run a part in a process of its own: its figures, its whole time and peak memory (MB)."""
    command = [sys.executable, __file__, "--part", part, str(corpus), str(directory)]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {
        **json.loads(done.stdout.splitlines()[-1]),
        "process_seconds": time.perf_counter() - start,
    }


def peak_memory() -> float:
    """The largest resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def verdict(name: str, value: float, limit: float) -> bool:
    """Print a figure beside its limit; whether it holds."""
    print(f"  {name:<52}{value:6.2f}   limit {limit:.2f}   {'ok' if value <= limit else 'MISSED'}")
    return value <= limit


def compare_times(corpus: Path, directory: Path, repeats: int) -> bool:
    """Time the three parts, the two short ones in turn, and print the ratios of medians."""
    runs: dict[str, list[dict]] = {"encode": [], "shards": []}
    for _ in range(repeats):
        for part, results in runs.items():
            results.append(measured(part, corpus, directory))
    runs["published"] = [measured("published", corpus, directory)]
    for part, results in runs.items():
        seconds = " ".join(f"{r['seconds']:.2f}" for r in results)
        whole = " ".join(f"{r['process_seconds']:.2f}" for r in results)
        cpu = " ".join(f"{r['cpu_seconds']:.2f}" for r in results)
        tokens = f"{results[0]['tokens']:,} tokens"
        print(f"  {part:<10} {tokens:>17}   {seconds} s   process {whole} s, {cpu} s of CPU")

    def median(part: str, key: str) -> float:
        return statistics.median(r[key] for r in runs[part])

    ratios = (
        (
            "shards / encode, without imports",
            median("shards", "seconds") / median("encode", "seconds"),
            LIMIT_ENCODE,
        ),
        (
            "shards / published, whole processes",
            median("shards", "process_seconds") / median("published", "process_seconds"),
            LIMIT_PUBLISHED,
        ),
    )
    held = [verdict(*ratio) for ratio in ratios]
    return all(held)


def compare_memory(directory: Path, small: Path, megabytes: tuple[float, float]) -> bool:
    """Peak memory of making shards of a small and of a large corpus."""
    large = directory / "large.parquet"
    write_corpus(large, megabytes[1])
    peaks = [measured("shards", corpus, directory)["peak_mb"] for corpus in (small, large)]
    for size, peak in zip(megabytes, peaks, strict=True):
        print(f"  {size:g} MB of text: {peak:.0f} MB at the peak")
    return verdict("peak memory, large / small", peaks[1] / peaks[0], LIMIT_MEMORY)


def main() -> int:
    """Run the comparison, or one part of it; 1 where a limit was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="compare peak memory, not times")
    parser.add_argument("--large", type=float, default=500, help="MB of the large corpus")
    parser.add_argument("--part", nargs=3, metavar=("PART", "CORPUS", "DIRECTORY"))
    arguments = parser.parse_args()
    if arguments.part:
        part, corpus, directory = arguments.part
        figures = PARTS[part](Path(corpus), Path(directory))
        print(json.dumps(figures | {"peak_mb": peak_memory(), "cpu_seconds": time.process_time()}))
        return 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "small.parquet"
        write_corpus(corpus, arguments.megabytes)
        write_default_tokenizer(corpus, directory)
        print(f"{arguments.megabytes:g} MB of text, {os.cpu_count()} cores")
        if arguments.memory:
            held = compare_memory(directory, corpus, (arguments.megabytes, arguments.large))
        else:
            held = compare_times(corpus, directory, arguments.repeats)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
