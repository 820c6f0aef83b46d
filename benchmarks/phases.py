"""Rows of 64 tokens, of 256, of both one after the other, and a mask share that falls, for as much
processor time each.

    python benchmarks/phases.py configure embedded 700 > embedded.yaml
    snakemake --cores 1 --configfile embedded.yaml --directory embedded
    python benchmarks/phases.py collect embedded=embedded/results tutorial=tutorial/results

`configure` prints the overlay of one corpus, on one thread, for three seeds: `700` is the number of
steps with rows of 64, and the other numbers follow from the cost of a step, as measured in turns
with that of rows of 64 on an EPYC without AVX-512. `collect` writes docs/learning/phases.json,
which `figures.py` prints.
"""

import argparse
import json
from pathlib import Path

import yaml

BASE = Path(__file__).resolve().parents[1]
RECORD = BASE / "docs" / "learning" / "phases.json"
#: Processor time of a step with rows of 256 to one with rows of 64 (as many tokens), and with a
#: mask share of 0.15 to one of 0.3 (rows of 256).
LONGER, FEWER_MASKS = 1.26, 0.82
CORPORA = {
    "embedded": {},
    "tutorial": {
        "corpus": {
            "source": "files",
            "files": {
                "train": [str(BASE / "docs/tutorial/libros/*.txt")],
                "document_per": "paragraph",
            },
            "held_out": {"validation": 0.05, "test": 0.05},
        },
        "tokenizer": {"vocabulary_size": 4000},
    },
}


def plans(steps: int) -> dict[str, dict]:
    """Section `pretraining` of each plan, at the processor time of `steps` with rows of 64."""
    short = 1.0, {}
    longer = LONGER, {"sequence_length": 256}
    fewer = LONGER * FEWER_MASKS, {"sequence_length": 256, "mlm_probability": 0.15}
    shares = {
        "rows-64": [(1.0, *short)],
        "rows-256": [(1.0, *longer)],
        "rows-64-then-256": [(0.9, *short), (0.1, *longer)],
        "mask-0.3-then-0.15": [(0.5, *longer), (0.5, *fewer)],
    }
    sections = {}
    for name, phases in shares.items():
        per_step = sum(share * cost for share, cost, _ in phases)
        section: dict = {"steps": round(steps / per_step)}
        if name != "rows-64":
            section["phases"] = [{"share": share} | changes for share, _, changes in phases]
        sections[name] = {"pretraining": section}
    return sections


def configure(options) -> None:
    overlay = CORPORA[options.corpus] | {
        "runs": plans(options.steps),
        "sweep": {"pretraining.seed": [0, 1, 2]},
        "pretraining": {"validation": {"every": 100_000}},
        "accelerator": {"cpu_threads": 1},
        "evaluation": {"max_tokens": 80_000},
    }
    print(yaml.safe_dump(overlay, sort_keys=False))


def collect(options) -> None:
    record: dict = {}
    for corpus, results in (each.split("=", 1) for each in options.results):
        for name in plans(1):
            runs = []
            for place in sorted(Path(results, "runs").glob(f"{name}_seed-*")):
                evaluation = json.loads((place / "evaluation.json").read_text())
                training = json.loads((place / "training.json").read_text())
                sums = {key: evaluation["cluster_sums"][key] for key in ("loss", "predictions")}
                runs.append({"seed": training["seed"], "steps": training["steps"]} | sums)
            record.setdefault(corpus, {})[name] = runs
    RECORD.write_text(json.dumps(record) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    configuring = commands.add_parser("configure", help="print the overlay of a corpus")
    configuring.add_argument("corpus", choices=CORPORA)
    configuring.add_argument("steps", type=int)
    configuring.set_defaults(call=configure)
    collecting = commands.add_parser("collect", help="write docs/learning/phases.json")
    collecting.add_argument("results", nargs="+", metavar="CORPUS=RESULTS")
    collecting.set_defaults(call=collect)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
