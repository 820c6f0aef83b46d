"""The corpus stage on gigabytes: speed a core, memory of each job, cores, and datatrove beside it.

    python benchmarks/corpus.py                            200 MB and 2 GB, datatrove on 200 MB
    python benchmarks/corpus.py --megabytes 20 --cores 1   a trial
    python benchmarks/corpus.py --documents pages          of 100 to 700 words

Text is made of the embedded corpus: its paragraphs, or passages, of which three words in ten are
replaced, so that no two are alike, with exact and near duplicates planted. The stage runs as
Snakemake runs it, in parts. A case is a configuration laid over the benchmark's;
`--case NAME=FILE.yaml` adds one. datatrove runs the case of the same name, if it has one, from the
same files, in an environment that is made once in a cache directory. Both are measured by their
processes in /proc: CPU seconds of all of them together, and the peak resident memory of each. Ends
with status 1 where a job of the corpus takes more than 1,000 MB.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

LOCK = ROOT / "benchmarks" / "requirements-datatrove.txt"
SPLITS = ("train", "validation", "test")
#: What each case lays over the configuration; datatrove_corpus.py has its side of it.
CASES: dict[str, dict] = {
    "exact": {},
    "near": {"corpus": {"filters": {"near_duplicates": {"enabled": True}}}},
    "filters": yaml.safe_load((ROOT / "presets" / "filters-gopher.yaml").read_text()),
}
#: No job may take more memory than this.
MOST_MB = 1000
#: Files of the train split, and parts in which they are read.
FILES = 4
#: Characters of a document, which datatrove_corpus.py asks for too.
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
    number, limit = 0, megabytes * 1e6 / FILES
    handle = open(place / "train-0.jsonl", "w", encoding="utf-8")
    for text in documents(megabytes, planted, kind):
        if planted.bytes > limit * (number + 1) and number < FILES - 1:
            handle.close()
            number += 1
            handle = open(place / f"train-{number}.jsonl", "w", encoding="utf-8")
        handle.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    handle.close()
    from mlm.corpus.embedded_corpus import speeches

    words = "\n\n".join(speeches().values()).split(" ")
    for number, split in enumerate(SPLITS[1:]):
        # As they stand, so that rules of quality keep them, and no passage of train is one.
        texts = [" ".join(words[n * 300 : n * 300 + 300]) for n in (2 * number, 2 * number + 1)]
        rows = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        (place / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return planted


@dataclass
class Work:
    """A process and its descendants: jobs, CPU seconds and peak memory [MB] by what they ran."""

    wall: float = 0
    cpu: float = 0
    jobs: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    peaks: dict[int, float] = field(default_factory=dict)

    def by_rule(self) -> Iterator[tuple[str, int, float, float]]:
        """What was run, in how many processes, their CPU seconds, and the highest peak of one."""
        for name, ids in self.jobs.items():
            yield name, len(ids), sum(map(self.seconds.get, ids)), max(map(self.peaks.get, ids))


_JOB = re.compile(r"scripts/tmp\w+\.(\w+)\.py")
_TICK = os.sysconf("SC_CLK_TCK")


def _look(root: int, work: Work) -> None:
    """Note what the descendants of `root` have used so far."""
    parents, found = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            parents[int(entry)] = int(stat[1])
            found[int(entry)] = (int(stat[11]) + int(stat[12])) / _TICK
        except (OSError, IndexError):
            continue
    for pid, seconds in found.items():
        above = pid
        while above not in (root, 0, 1) and above in parents:
            above = parents[above]
        if above != root:
            continue
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            status = Path(f"/proc/{pid}/status").read_text()
        except (OSError, UnicodeDecodeError):
            continue
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        if peak is None:
            continue
        job = _JOB.search(command)
        # The shell that starts a job has its name as well.
        if job and " -c " not in command:
            name = job[1]
        else:
            name = "datatrove" if "datatrove" in command else "other"
        if name != "other":
            # It may have been seen between its fork and the start of its own program.
            work.jobs["other"].discard(pid)
        work.jobs[name].add(pid)
        work.seconds[pid] = max(seconds, work.seconds.get(pid, 0))
        work.peaks[pid] = max(int(peak[1]) * 1024 / 1e6, work.peaks.get(pid, 0))


def worked(command: list[str], place: Path) -> Work:
    """Run `command` in `place` and measure it; stops the benchmark where it fails."""
    place.mkdir(parents=True, exist_ok=True)
    log, work, start = place / "output.txt", Work(), time.monotonic()
    before = os.times()
    with open(log, "w") as output:
        process = subprocess.Popen(command, cwd=place, stdout=output, stderr=output)
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                _look(process.pid, work)

        watcher = threading.Thread(target=watch)
        watcher.start()
        status = process.wait()
        done.set()
        watcher.join()
    after = os.times()
    # To the last tick of all processes that were waited for; a server that forks waits for none.
    waited = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    work.cpu = max(waited, sum(work.seconds.values()))
    work.wall = time.monotonic() - start
    if status:
        raise SystemExit(f"{' '.join(command)}:\n{log.read_text()[-4000:]}")
    return work


def built(text: Path, place: Path, overrides: dict, cores: int) -> tuple[Work, list[Path]]:
    """This project's corpus of the files in `text`, and its Parquet files."""
    place.mkdir(parents=True)
    files = {s: [f"{text}/{s}*.jsonl"] for s in SPLITS}
    own = {
        "source": "files",
        "files": files,
        "parts": FILES,
        "filters": {"min_characters": SHORTEST},
        "count": {"train": FILES},
    }
    (place / "own.yaml").write_text(yaml.safe_dump(_laid_over({"corpus": own}, overrides)))
    work = worked(
        [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")),
            *("--configfile", "own.yaml", "--cores", str(cores)),
            *(f"results/corpus/{split}.json" for split in SPLITS),
        ],
        place,
    )
    return work, sorted((place / "results" / "corpus").glob("train*.parquet"))


def _laid_over(below: dict, above: dict) -> dict:
    return below | {
        key: _laid_over(below[key], value) if isinstance(below.get(key), dict) else value
        for key, value in above.items()
    }


def peer_python() -> Path:
    """The interpreter of datatrove's environment, which is made where it is missing."""
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


def peer_built(case: str, text: Path, place: Path, cores: int) -> tuple[Work, list[Path]]:
    """What datatrove makes of the same files, and its Parquet files."""
    script = ROOT / "benchmarks" / "datatrove_corpus.py"
    command = [str(peer_python()), str(script), case, str(text), str(place / "out"), str(cores)]
    work = worked(command, place)
    return work, sorted((place / "out" / "kept").rglob("*.parquet"))


@dataclass(frozen=True)
class Found:
    """Documents that were kept, and how the planted pairs of near duplicates were judged."""

    documents: int
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def judged(planted: Planted, text: Path, files: list[Path]) -> Found:
    """How the planted pairs fared: of a pair that was found, one text is left.

    What is missing beside them, but for texts of undecided pairs, was taken for a duplicate
    wrongly.
    """
    left = set()
    documents = 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(10_000, columns=["text"]):
            documents += len(batch)
            left.update(map(identity, batch.column(0).to_pylist()))
    given = set()
    for file in sorted(text.glob("train-*.jsonl")):
        with open(file, encoding="utf-8") as lines:
            texts = (json.loads(line)["text"] for line in lines)
            given.update(identity(text) for text in texts if len(text) >= SHORTEST)
    found = sum((a in left) != (b in left) for a, b in planted.same)
    removed = len(given - left - planted.undecided)
    precision = min(found / removed, 1.0) if removed else 1.0
    return Found(documents, precision, found / max(len(planted.same), 1))


def shown(name: str, megabytes: float, cores: int, work: Work, found: Found) -> float:
    """Print a run; its megabytes a CPU second."""
    rate = megabytes / work.cpu
    print(
        f"{name}, {megabytes:.0f} MB, {cores} core{'s' * (cores > 1)}: {rate:.2f} MB a CPU second, "
        f"{work.cpu:.1f} CPU s, {work.wall:.1f} s by the clock, {found.documents:,} documents kept",
        flush=True,
    )
    print(
        f"    planted near duplicates: F1 {found.f1:.4f} (precision {found.precision:.4f}, "
        f"recall {found.recall:.4f})",
        flush=True,
    )
    for rule, jobs, seconds, peak in work.by_rule():
        print(f"    {rule:<20} {jobs:>4} processes {seconds:9.1f} CPU s  peak {peak:7.0f} MB")
    return rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, nargs="+", default=[200, 2000], metavar="MB")
    parser.add_argument("--documents", choices=["paragraphs", "pages"], default="paragraphs")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=1, help="of every comparison (default 1)")
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="NAME[=FILE.yaml]",
        help="a case to run, and what it lays over the configuration (default: all there are)",
    )
    parser.add_argument(
        "--peer",
        type=float,
        default=200,
        metavar="MB",
        help="datatrove runs on the first number of cores beside sizes up to this one; 0: never "
        "(default 200)",
    )
    arguments = parser.parse_args()
    cases = dict(CASES)
    for given in arguments.case:
        name, _, file = given.partition("=")
        if file:
            cases[name] = yaml.safe_load(Path(file).read_text()) or {}
        elif name not in cases:
            parser.error(f"--case {name}: there are {', '.join(cases)}; or give {name}=FILE.yaml")
    asked = [given.partition("=")[0] for given in arguments.case] or list(cases)
    highest = 0.0
    before: dict[str, tuple[float, float]] = {}

    def beyond(name: str, megabytes: float, seconds: float) -> float | None:
        """Megabytes a CPU second beyond the smaller size, printed; None: this is the first."""
        smaller, before[name] = before.get(name), (megabytes, seconds)
        if smaller is None:
            return None
        rate = (megabytes - smaller[0]) / (seconds - smaller[1])
        print(f"    beyond {smaller[0]:.0f} MB: {rate:.2f} MB a CPU second", flush=True)
        return rate

    with tempfile.TemporaryDirectory(prefix="corpus-benchmark-") as directory:
        for size in sorted(set(arguments.megabytes)):
            place = Path(directory) / f"{size:g}"
            text = place / "text"
            planted = write_text(text, size, arguments.documents)
            megabytes = planted.bytes / 1e6
            print(
                f"\n{megabytes:.0f} MB of text, {planted.documents:,} documents, of which "
                f"{planted.duplicates:,} exact duplicates; {len(planted.same):,} near duplicates",
                flush=True,
            )
            for name in asked:
                for number in range(arguments.rounds):
                    for cores in arguments.cores:
                        where = place / f"{name}-{number}-{cores}"
                        work, files = built(text, where / "here", cases[name], cores)
                        found = judged(planted, text, files)
                        rate = shown(f"{name}: here", megabytes, cores, work, found)
                        for rule, _, _, peak in work.by_rule():
                            highest = max(highest, peak if rule.startswith("corpus") else 0)
                        more = beyond(f"{name} here {cores}", megabytes, work.cpu)
                        shutil.rmtree(where)
                        if size > arguments.peer or cores != arguments.cores[0]:
                            continue
                        if name not in CASES:
                            continue
                        other, files = peer_built(name, text, where / "peer", cores)
                        found = judged(planted, text, files)
                        shutil.rmtree(where)
                        theirs = shown(f"{name}: datatrove", megabytes, cores, other, found)
                        print(
                            f"{name}, {cores} core{'s' * (cores > 1)}: here / datatrove "
                            f"{rate / theirs:.2f} times the MB a CPU second, "
                            f"{other.wall / work.wall:.2f} times as fast by the clock",
                            flush=True,
                        )
                        its = beyond(f"{name} datatrove {cores}", megabytes, other.cpu)
                        if more and its:
                            print(f"    here / datatrove beyond that: {more / its:.2f} times")
    print(f"\nhighest peak of a job: {highest:.0f} MB (limit {MOST_MB})")
    return int(highest > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
