"""Tokenizer training against the UnigramTrainer of `tokenizers`, on the embedded corpus.

    python benchmarks/tokenizer.py

Trains both in turn, on the same train split from the same Parquet file, at the same
vocabulary size. Prints the seconds of each round, the ratio of the medians, the tokens per
word of the test split, and how many different files the rounds gave. Ends with status 1
where training here is not 1.5 times as fast, needs over 1 % more tokens, or differs between
rounds.
"""

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mlm.config.resolution import resolve  # noqa: E402
from mlm.config.tokenizer import Tokenizer  # noqa: E402
from mlm.corpus.embedded_corpus import paragraphs, speeches_by_split  # noqa: E402
from mlm.corpus.split_documents import SplitDocuments  # noqa: E402
from mlm.foundations.atomic import canonical_json  # noqa: E402
from mlm.tokenizer.training import suitable_size, train_tokenizer  # noqa: E402


def write_corpus(directory: Path, config: dict) -> dict[str, SplitDocuments]:
    """The embedded corpus as Parquet files, one paragraph a document, by split."""
    files = {}
    for split, speeches in speeches_by_split(config["seed"], config["corpus"]["held_out"]).items():
        texts = [p for speech in speeches.values() for p in paragraphs(speech)]
        file = directory / f"{split}.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), file)
        files[split] = SplitDocuments([(file, len(texts))], sum(len(t.encode()) for t in texts))
    return files


def train_here(corpus: SplitDocuments, settings: Tokenizer) -> str:
    """A tokenizer.json from the stage's own training."""
    return canonical_json(train_tokenizer(corpus, settings).tokenizer)


def train_there(corpus: SplitDocuments, settings: Tokenizer) -> str:
    """A tokenizer.json from `UnigramTrainer`, with the same text before the model."""
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(old, new) for old, new in settings.replacements]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=settings.vocabulary_size or suitable_size(corpus.bytes),
        special_tokens=list(settings.special_tokens.texts),
        unk_token=settings.special_tokens.unk,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus.texts(), trainer)
    return tokenizer.to_str()


def tokens_per_word(tokenizer_json: str, corpus: SplitDocuments) -> float:
    """Tokens, without special ones, for each word between white space."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    texts = [text for batch in corpus.texts() for text in batch]
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return sum(len(e.ids) for e in encodings) / sum(len(text.split()) for text in texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of both (default: 5)")
    parser.add_argument("--config", default=ROOT / "config.yaml", help="configuration file")
    arguments = parser.parse_args()
    given = yaml.safe_load(Path(arguments.config).read_text(encoding="utf-8"))
    config = resolve(given)
    settings = Tokenizer.of_param(config["tokenizer"])
    trainers: dict[str, Callable[[Path, Tokenizer], str]] = {
        f"this project ({settings.kind})": train_here,
        "UnigramTrainer": train_there,
    }
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    work: dict[str, list[float]] = {name: [] for name in trainers}
    made: dict[str, list[str]] = {name: [] for name in trainers}
    with tempfile.TemporaryDirectory() as directory:
        corpus = write_corpus(Path(directory), config)
        import sentencepiece  # noqa: F401  (so that no round pays for an import)
        import tokenizers  # noqa: F401

        for number in range(arguments.rounds):
            for name, train in trainers.items():
                start, busy = time.perf_counter(), time.process_time()
                made[name].append(train(corpus["train"], settings))
                seconds[name].append(time.perf_counter() - start)
                work[name].append(time.process_time() - busy)
                print(f"round {number + 1}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
        fertility = {n: tokens_per_word(json[-1], corpus["test"]) for n, json in made.items()}
    files = {n: len({hashlib.sha256(j.encode()).digest() for j in js}) for n, js in made.items()}
    for name, times in seconds.items():
        print(
            f"{name}: median {statistics.median(times):.2f} s "
            f"({min(times):.2f} to {max(times):.2f}; processor time "
            f"{statistics.median(work[name]):.2f} s), {fertility[name]:.4f} tokens per word of "
            f"the test split, {files[name]} different files in {len(times)} rounds"
        )
    here, there = (statistics.median(times) for times in seconds.values())
    ours, theirs = fertility.values()
    more = ours / theirs - 1
    print(f"ratio: {there / here:.2f} times as fast, {more:+.2%} tokens per word")
    return int(there / here < 1.5 or more > 0.01 or files[next(iter(files))] != 1)


if __name__ == "__main__":
    sys.exit(main())
