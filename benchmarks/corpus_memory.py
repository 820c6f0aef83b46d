"""Is the corpus stage's memory bounded? Its peak on a small text and on a large one.

    python benchmarks/corpus_memory.py [--small 20] [--large 200] [--per line]

Writes texts of so many MB (the embedded speeches again and again, each line made different)
to a temporary directory, builds the corpus of each in a process of its own, and prints the
peak resident memory, the speed and the ratio.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent / "scripts"
SPLITS = ("train", "validation", "test")
#: The target: the larger corpus needs at most this much more memory.
TOLERANCE = 0.2


def write_text(path: Path, megabytes: float) -> None:
    """A text of `megabytes` (10^6 bytes), paragraphs numbered so that all are different."""
    from mlm.corpus.embedded import paragraphs, speeches

    texts = [text for speech in speeches().values() for text in paragraphs(speech)]
    size, number = 0, 0
    with open(path, "w", encoding="utf-8") as handle:
        while size < megabytes * 1e6:
            line = f"{number} {texts[number % len(texts)]}".replace("\n", " ") + "\n"
            handle.write(line)
            size += len(line.encode())
            number += 1


def build(file: str, kind: str, out: str) -> None:
    """Build the corpus of one file, and print its peak memory [MB] and time [s] as JSON."""
    from mlm.corpus.corpus_building import build_corpus

    settings = {
        "source": "files",
        "files": {"document_per": kind, "quoted_fields": True},
        "text_column": "text",
        "filters": {
            "normalisation": "NFC",
            "min_characters": 1,
            "max_characters": None,
            "deduplicate": True,
            "remove_leakage": True,
        },
        "encoding_errors": "strict",
        "held_out": {"validation": 0.05, "test": 0.05},
        "seed": 0,
    }
    outputs = [
        {split: [f"{out}/{split}.parquet"] for split in SPLITS},
        {split: f"{out}/{split}.json" for split in SPLITS},
    ]
    start = time.perf_counter()
    build_corpus(settings, {"train": [file]}, *outputs)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"peak_mb": round(peak, 1), "seconds": round(seconds, 2)}))


def measured(file: Path, kind: str, out: Path) -> dict:
    """What `build` prints, from a fresh process."""
    command = [sys.executable, __file__, "--build", str(file), "--per", kind, "--out", str(out)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=float, default=20, help="MB (default 20)")
    parser.add_argument("--large", type=float, default=200, help="MB (default 200)")
    parser.add_argument("--per", default="line", choices=["line", "paragraph"])
    parser.add_argument("--build", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(SCRIPTS))
    if arguments.build:
        build(arguments.build, arguments.per, arguments.out)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        found = {}
        for size in (arguments.small, arguments.large):
            file = Path(directory) / f"{size:g}.txt"
            write_text(file, size)
            found[size] = measured(file, arguments.per, Path(directory) / f"{size:g}")
            speed = size / found[size]["seconds"]
            print(f"{size:g} MB: peak {found[size]['peak_mb']} MB, {speed:.1f} MB/s")
        ratio = found[arguments.large]["peak_mb"] / found[arguments.small]["peak_mb"]
        print(f"peak memory, large / small: {ratio:.3f} (target: at most {1 + TOLERANCE})")
    return 0 if ratio <= 1 + TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
