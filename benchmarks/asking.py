"""What an index of the corpus costs, and how soon `scripts/ask.py` answers with it and without.

    python benchmarks/asking.py [--megabytes 100] [--keep DIRECTORY]

Makes a text of that size (the embedded speeches again and again, one word in ten replaced by
another, and each paragraph with a word of its own) in a temporary directory, or in DIRECTORY, and
has Snakemake make corpus, tokenizer, shards and the index of it. Then it asks for a sentence that
stands in the text, for one that does not, and for one of common words alone, each in a process of
its own.
"""

import argparse
import csv
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

CONFIG = """
corpus: {source: files, files: {train: [text.txt]}, held_out: {validation: 0.01, test: 0.01}}
tokenizer: {max_training_bytes: 5000000}
"""
#: The longest that a question may take with the index, in seconds.
LIMIT = 5.0


def write_text(path: Path, megabytes: float) -> None:
    """A text of `megabytes`, a paragraph a line, all of them different."""
    from mlm.corpus.embedded_corpus import paragraphs, speeches

    texts = [p.split() for speech in speeches().values() for p in paragraphs(speech)]
    words = [word for text in texts for word in text]
    drawn, size, number = random.Random(0), 0, 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 1e6:
            text = list(texts[number % len(texts)])
            for place in range(drawn.randrange(10), len(text), 10):
                text[place] = drawn.choice(words)
            # A word of its own: the vocabulary grows with the text.
            size += file.write(f"{' '.join(text)} No{number}\n")
            number += 1


def ask(place: Path, sentence: str) -> tuple[str, float, float, float]:
    """The answer's second line, and its seconds, its processor seconds and its peak memory [MB]."""
    command = [sys.executable, ROOT / "scripts/ask.py", sentence, "--configfile", "my.yaml"]
    # A process in between: the peak of all children would be that of the largest so far.
    program = (
        "import resource, subprocess, sys, time; start = time.perf_counter()\n"
        "ran = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE, text=True)\n"
        "seconds = time.perf_counter() - start\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(ran.stdout.splitlines()[1])\n"
        "print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *map(str, command)],
        cwd=place,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    said, figures = ran.stdout.splitlines()
    return said, *map(float, figures.split())


def sentences(place: Path) -> dict[str, str]:
    """What is asked: words of a line in the middle, the same with two others, and common words."""
    with (place / "text.txt").open("rb") as file:
        file.seek((place / "text.txt").stat().st_size // 2)
        file.readline()
        words = file.readline().decode().split()
    while len(words) < 14:
        words += words
    inside = words[1:13]
    return {
        "exact": " ".join(inside),
        "nearest": " ".join([*inside[:6], "unforeseen", *inside[6:], "zebra"]),
        "nearest, common words": "it is to be the of and that in which a by for this zebra",
    }


def main() -> int:
    """Measure and print; 1 where a question with the index took longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--keep", type=Path, help="an existing directory is measured as it is")
    parser.add_argument("--without", action="store_true", help="also ask without the index")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.keep or Path(temporary)
        place.mkdir(exist_ok=True)
        if not (place / "text.txt").exists():
            write_text(place / "text.txt", arguments.megabytes)
            (place / "my.yaml").write_text(CONFIG)
        command = [Path(sys.executable).with_name("snakemake"), "-s", ROOT / "Snakefile"]
        command += ["--cores", "2", "index", "--configfile", "my.yaml", "--quiet"]
        subprocess.run(command, cwd=place, check=True)
        megabytes = (place / "results/corpus/train.parquet").stat().st_size / 1e6
        size = sum(p.stat().st_size for p in (place / "results/index").glob("*.sqlite")) / 1e6
        with (place / "logs/benchmarks/index_split/train.tsv").open() as table:
            (row,) = csv.DictReader(table, delimiter="\t")
        text = (place / "text.txt").stat().st_size / 1e6
        print(f"{text:,.0f} MB of text, {megabytes:,.0f} MB in Parquet")
        print(
            f"index of train: {float(row['s']):.0f} s, {0.98 * text / float(row['s']):.1f} MB/s, "
            f"peak {row['max_rss']} MiB; all indexes {size:,.0f} MB"
        )
        asked, slowest = sentences(place), 0.0
        for way in ["with", "without"] if arguments.without else ["with"]:
            if way == "without":
                os.rename(place / "results/index", place / "results/index-away")
            try:
                for kind, sentence in asked.items():
                    said, wall, processor, peak = ask(place, sentence)
                    if way == "with":
                        slowest = max(slowest, wall)
                    print(
                        f"{way:>8} index, {kind:<22}{wall:6.2f} s, {processor:6.2f} s of "
                        f"processor, {peak:6,.0f} MB   {said}"
                    )
            finally:
                if way == "without":
                    os.rename(place / "results/index-away", place / "results/index")
    return 0 if slowest <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
