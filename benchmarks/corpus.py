"""The corpus stage on gigabytes: speed a core, memory of each job, and datatrove beside it.

    python benchmarks/corpus.py                            200 MB and 2 GB, datatrove on 200 MB
    python benchmarks/corpus.py --megabytes 20 --cores 1   a trial
    python benchmarks/corpus.py --documents pages          of 100 to 700 words

The text is the paragraphs or passages of the embedded corpus with three words in ten replaced, so
that no two are alike, and with planted exact and near duplicates. The stage runs as Snakemake runs
it, in parts. datatrove runs the same case from the same files on one core (datatrove_corpus.py), in
an environment that is made once in a cache directory. Ends with status 1 if a job of the corpus
takes more than 1,000 MB.
"""

import argparse
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml
from workflow_scaling import ROOT, Cost, measured, snakemake

LOCK = ROOT / "benchmarks" / "requirements-datatrove.txt"
SPLITS = ("train", "validation", "test")
#: What each case lays over the configuration; datatrove_corpus.py has its side of it.
CASES: dict[str, dict] = {
    "exact": {},
    "near": {"corpus": {"filters": {"near_duplicates": True}}},
    "filters": yaml.safe_load((ROOT / "presets" / "filters-gopher.yaml").read_text()),
}
#: No job may take more memory than this.
MOST_MB = 1000
#: Files of the train split, and parts in which they are read.
FILES = 4
#: Characters of the shortest document, as in datatrove_corpus.py.
SHORTEST = 50
#: Share of the words of a passage that are replaced; shares of the documents that are planted.
REPLACED, EXACT, NEAR = 0.3, 0.05, 0.05
#: Words replaced in near duplicates: the first three are to be found, the others are not.
EDITS = (0.003, 0.01, 0.02, 0.1, 0.2)
#: A planted pair counts from the first Jaccard similarity of word 5-grams on; below the other, not.
SAME, OTHER = 0.8, 0.6


@dataclass
class Planted:
    """What a text holds: bytes of text, documents, exact duplicates, and pairs by similarity."""

    bytes: int = 0
    documents: int = 0
    duplicates: int = 0
    same: list[tuple[int, int]] = field(default_factory=list)
    #: Documents of pairs that are alike to a degree that either verdict suits.
    undecided: set[int] = field(default_factory=set)


def identity(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def similarity(first: np.ndarray, second: np.ndarray) -> float:
    """Jaccard similarity of the word 5-grams of two texts."""
    grams = [set(zip(*(words[i:] for i in range(5)), strict=False)) for words in (first, second)]
    return len(grams[0] & grams[1]) / len(grams[0] | grams[1])


def passages(kind: str) -> tuple[np.ndarray, Callable[[np.random.Generator], tuple[int, int]]]:
    """The words of the embedded corpus, and what draws where a document begins and its length."""
    from mlm.corpus.embedded_corpus import paragraphs, speeches

    if kind == "pages":
        words = np.array("\n\n".join(speeches().values()).split(" "), object)
        return words, lambda d: (int(d.integers(len(words) - 700)), int(d.integers(100, 700)))
    several = [text.split(" ") for speech in speeches().values() for text in paragraphs(speech)]
    ends = np.cumsum([len(one) for one in several])

    def drawn(draw: np.random.Generator) -> tuple[int, int]:
        number = int(draw.integers(len(several)))
        return int(ends[number]) - len(several[number]), len(several[number])

    return np.array([word for one in several for word in one], object), drawn


def documents(megabytes: float, planted: Planted, kind: str) -> Iterator[str]:
    """Texts of `megabytes` (10^6 bytes) in all; `planted` is told what is in them."""
    words, place = passages(kind)
    draw = np.random.default_rng(0)
    # Not yet copied; an original is copied at most once.
    waiting: list[np.ndarray] = []

    def edited(numbers: np.ndarray, share: float) -> np.ndarray:
        other = draw.integers(len(words), size=len(numbers))
        return np.where(draw.random(len(numbers)) < share, other, numbers)

    while planted.bytes < megabytes * 1e6:
        copied = draw.random()
        if waiting and copied < EXACT + NEAR:
            numbers = original = waiting.pop(int(draw.integers(len(waiting))))
            if copied < EXACT:
                planted.duplicates += 1
            else:
                while np.array_equal(numbers, original):
                    numbers = edited(original, EDITS[int(draw.integers(len(EDITS)))])
                both = identity(" ".join(words[original])), identity(" ".join(words[numbers]))
                alike = similarity(words[original], words[numbers])
                if alike >= SAME:
                    planted.same.append(both)
                elif alike >= OTHER:
                    planted.undecided.update(both)
        else:
            start, length = place(draw)
            numbers = edited(np.arange(start, start + length), REPLACED)
            # Of shorter ones, an edit makes another document.
            if len(waiting) < 5000 and length >= 20:
                waiting.append(numbers)
        text = " ".join(words[numbers])
        planted.bytes += len(text.encode())
        planted.documents += 1
        yield text


def write_text(place: Path, megabytes: float, kind: str) -> Planted:
    """Files of the train split, and two small ones of the others, below `place`."""
    place.mkdir(parents=True)
    planted = Planted()
    files = [open(place / f"train-{n}.jsonl", "w", encoding="utf-8") for n in range(FILES)]
    for text in documents(megabytes, planted, kind):
        number = min(int(planted.bytes / (megabytes * 1e6) * FILES), FILES - 1)
        files[number].write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    for file in files:
        file.close()
    from mlm.corpus.embedded_corpus import speeches

    words = "\n\n".join(speeches().values()).split(" ")
    for number, split in enumerate(SPLITS[1:]):
        # As they stand, so that rules of quality keep them, and no passage of train is one.
        texts = [" ".join(words[n * 300 : n * 300 + 300]) for n in (2 * number, 2 * number + 1)]
        rows = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        (place / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return planted


def built(text: Path, place: Path, overrides: dict, cores: int) -> tuple[Cost, list[Path]]:
    """This project's corpus of the files in `text`, and its Parquet files."""
    place.mkdir(parents=True)
    filters = {"min_characters": SHORTEST} | overrides.get("corpus", {}).get("filters", {})
    corpus = {
        "source": "files",
        "files": {split: [f"{text}/{split}*.jsonl"] for split in SPLITS},
        "parts": FILES,
        "count": FILES,
        "filters": filters,
    }
    targets = (f"results/corpus/{split}.json" for split in SPLITS)
    cost, _ = snakemake(place, {"corpus": corpus}, "--cores", str(cores), *targets)
    return cost, sorted((place / "results" / "corpus").glob("train*.parquet"))


def peaks(place: Path) -> dict[str, tuple[int, float, float]]:
    """Of each rule that ran in `place`: its jobs, their CPU seconds and the highest peak (MB)."""
    rules: dict[str, tuple[int, float, float]] = {}
    directory = place / "logs" / "benchmarks"
    for file in sorted(directory.rglob("*.tsv")):
        with file.open() as lines:
            (row,) = csv.DictReader(lines, delimiter="\t")
        rule = file.relative_to(directory).parts[0].removesuffix(".tsv")
        jobs, seconds, peak = rules.get(rule, (0, 0.0, 0.0))
        # Jobs that end at once have no figures.
        used, most = (float(row[key]) if row[key] != "NA" else 0 for key in ("cpu_time", "max_rss"))
        rules[rule] = jobs + 1, seconds + used, max(peak, most * 1.048576)
    return rules


def peer_python() -> Path:
    """The interpreter of datatrove's environment, which is made if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    place = cache / "mlm-from-scratch" / f"datatrove-{lock}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        print(f"making {place} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        pip = [python, "-m", "pip", "install", "-qq", "--require-hashes", "-r", LOCK]
        subprocess.run(pip, check=True)
        (place / "ready").touch()
    return python


def peer_built(case: str, text: Path, place: Path) -> tuple[Cost, list[Path]]:
    """datatrove's corpus of the same files on one core, and its Parquet files."""
    place.mkdir(parents=True)
    script = ROOT / "benchmarks" / "datatrove_corpus.py"
    cost, _ = measured([peer_python(), script, case, text, place / "out"], place)
    return cost, sorted((place / "out" / "kept").rglob("*.parquet"))


def judged(planted: Planted, text: Path, files: list[Path]) -> str:
    """How the planted pairs fared: of a pair that was found, one text is left.

    Other missing texts, except those of undecided pairs, were wrongly taken for duplicates.
    """
    left: set[int] = set()
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(10_000, columns=["text"]):
            left.update(map(identity, batch.column(0).to_pylist()))
    written = set()
    for file in sorted(text.glob("train-*.jsonl")):
        with open(file, encoding="utf-8") as lines:
            texts = (json.loads(line)["text"] for line in lines)
            written.update(identity(text) for text in texts if len(text) >= SHORTEST)
    matches = sum((a in left) != (b in left) for a, b in planted.same)
    removed = len(written - left - planted.undecided)
    precision = min(matches / removed, 1.0) if removed else 1.0
    recall = matches / max(len(planted.same), 1)
    f1 = 2 * precision * recall / (precision + recall) if matches else 0.0
    return f"F1 of planted pairs {f1:.3f} (precision {precision:.3f}, recall {recall:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, nargs="+", default=[200, 2000], metavar="MB")
    parser.add_argument("--documents", choices=["paragraphs", "pages"], default="paragraphs")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--peer", type=float, default=200, metavar="MB", help="datatrove up to")
    options = parser.parse_args()
    highest, smaller = 0.0, {}

    def show(name: str, megabytes: float, cost: Cost, verdict: str) -> None:
        """Print a run, and its speed beyond the smaller size, if there was one."""
        words = f"{name}: {megabytes / cost.cpu:.2f} MB a CPU second, {cost.cpu:.1f} CPU s, "
        words += f"{cost.wall:.1f} s by the clock, {verdict}"
        if name in smaller:
            less, seconds = smaller[name]
            rate = (megabytes - less) / (cost.cpu - seconds)
            words += f"; beyond {less:.0f} MB: {rate:.2f} MB a CPU second"
        smaller[name] = megabytes, cost.cpu
        print(words, flush=True)

    with tempfile.TemporaryDirectory(prefix="corpus-benchmark-") as directory:
        for size in sorted(set(options.megabytes)):
            place = Path(directory) / f"{size:g}"
            text = place / "text"
            planted = write_text(text, size, options.documents)
            megabytes = planted.bytes / 1e6
            print(
                f"\n{megabytes:.0f} MB of text, {planted.documents:,} documents, "
                f"{planted.duplicates:,} of them exact duplicates; {len(planted.same):,} pairs of "
                "near duplicates",
                flush=True,
            )
            for case in options.case:
                for cores in options.cores:
                    where = place / f"{case}-{cores}"
                    cost, files = built(text, where, CASES[case], cores)
                    verdict = judged(planted, text, files)
                    show(f"{case}, cores {cores}", megabytes, cost, verdict)
                    for rule, (jobs, seconds, peak) in peaks(where).items():
                        print(f"    {rule:<20} {jobs:>4} jobs {seconds:9.1f} CPU s  {peak:7.0f} MB")
                        highest = max(highest, peak)
                    shutil.rmtree(where)
                if size <= options.peer:
                    cost, files = peer_built(case, text, place / "peer")
                    show(f"{case}, datatrove", megabytes, cost, judged(planted, text, files))
                    shutil.rmtree(place / "peer")
    print(f"\nhighest peak of a job: {highest:.0f} MB (limit {MOST_MB})")
    return int(highest > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
