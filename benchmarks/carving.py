"""What a test split that is carved document by document does to its text, and to its loss.

    python benchmarks/carving.py

Splits are carved from the embedded corpus, with the shares of `config.yaml`, in two ways: by
paragraphs (documents) and by speeches (groups). A text token is at a joint where the token before
or after it in the split is not the one of the speech. The same words, those that both ways put
into test, are scored by the two-sided bigram of the evaluation, counted on each way's own train
split and with its weights fitted on each way's validation split:
  packed   as the workflow packs documents, with [CLS] and [SEP] between them
  joined   without these, so that a neighbour is seen across a joint
Ends with 1 where groups do not take away nine in ten of the joints.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from mlm.config.resolution import resolve
from mlm.config.tokenizer import Tokenizer
from mlm.corpus.document_groups import carve
from mlm.corpus.embedded_corpus import paragraphs, speeches
from mlm.corpus.split_documents import SplitDocuments
from mlm.evaluation.neighbour_mixture import NeighbourMixtures
from mlm.evaluation.predictions import Positions, positions_of
from mlm.samples.token_counts import count_tokens
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.training import train_tokenizer

WAYS, LAYOUTS = ("documents", "groups"), ("packed", "joined")
LIMIT = 0.1
#: Of the validation split's positions, one in so many fits the mixture's few weights.
FITTED = 10


@dataclass(frozen=True)
class Text:
    """The corpus: by document its group, its ids with [CLS] and [SEP], and its first place.

    Places count the text tokens, and leave one out between two groups.
    """

    documents: list[str]
    groups: list[str]
    ids: list[np.ndarray]
    places: np.ndarray


def text_of(config: dict) -> tuple[Text, Encoder]:
    """The embedded corpus, and the tokenizer of `config`, trained on all of it."""
    found = [(p, name) for name, speech in speeches().items() for p in paragraphs(speech)]
    documents, groups = map(list, zip(*found, strict=True))
    settings = Tokenizer.of_param(config["tokenizer"])
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "text.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"text": documents}), file)
        trained = train_tokenizer(
            SplitDocuments([(file, len(documents))], sum(len(d.encode()) for d in documents)),
            settings,
        )
    encoder = Encoder(trained.tokenizer, config["tokenizer"]["special_tokens"])
    ids = [np.array(tokens, np.int32) for tokens in encoder.encode(documents)]
    gaps = np.array([a != b for a, b in pairwise(groups)], np.int64)
    lengths = np.array([len(tokens) - 2 for tokens in ids])
    return Text(documents, groups, ids, np.append(0, np.cumsum(lengths[:-1] + gaps))), encoder


def places_of(text: Text, chosen: np.ndarray) -> np.ndarray:
    """The place in the corpus of each text token of the documents `chosen`, int64 [tokens]."""
    return np.concatenate([text.places[d] + np.arange(len(text.ids[d]) - 2) for d in chosen])


def at_joints(places: np.ndarray) -> np.ndarray:
    """Which tokens of a split stand beside another token than in the corpus, bool [tokens]."""
    broken = np.diff(places) != 1
    return np.append(broken, False) | np.append(False, broken)


def row_of(text: Text, chosen: np.ndarray, layout: str) -> np.ndarray:
    """The documents `chosen` one after the other, int32 [1, ids]."""
    inner = slice(None) if layout == "packed" else slice(1, -1)
    return np.concatenate([text.ids[d][inner] for d in chosen])[None]


def positions(row: np.ndarray, special: list[int]) -> Positions:
    """All text tokens of a row, with all of their neighbours in sight."""
    return positions_of(row, np.ones_like(row), row, ~np.isin(row, special))


def losses(text: Text, splits: dict, layout: str, encoder: Encoder, kept: np.ndarray) -> np.ndarray:
    """The bigram's loss, in nats, at the text tokens of the test split that are `kept`."""
    special = sorted(encoder.special().values())
    train, validation, test = (
        row_of(text, splits[split], layout) for split in ("train", "validation", "test")
    )
    counts = count_tokens([(train, np.ones_like(train))], encoder.vocabulary_size, special)
    mixtures = NeighbourMixtures(counts, special)
    mixtures.fit(positions(validation, special)[::FITTED])
    return mixtures.scores(positions(test, special)[kept], "bigram")["bigram"].loss


def carved(text: Text, way: str, seed: int, shares: dict) -> dict[str, np.ndarray]:
    """The documents of each split, in the order of the corpus."""
    keys = text.documents if way == "documents" else text.groups
    split = np.array([carve(key.encode(), seed, shares) for key in keys])
    return {name: np.flatnonzero(split == name) for name in ("train", *shares)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=16, help="each carves anew")
    given = arguments.parse_args()
    config = resolve({})
    text, encoder = text_of(config)
    joints: dict[str, list] = {way: [] for way in WAYS}
    found: dict[tuple, list] = {(way, layout): [] for way in WAYS for layout in LAYOUTS}
    beside = []
    for seed in range(given.seeds):
        splits = {way: carved(text, way, seed, config["corpus"]["held_out"]) for way in WAYS}
        places = {way: places_of(text, splits[way]["test"]) for way in WAYS}
        joint = {way: at_joints(places[way]) for way in WAYS}
        kept = {w: np.isin(places[w], places[o]) for w, o in (WAYS, WAYS[::-1])}
        # At a joint of one way alone: the tokens at the ends of a speech have one in both.
        beside.append(joint["documents"][kept["documents"]] & ~joint["groups"][kept["groups"]])
        for way in WAYS:
            joints[way].append(joint[way])
            for layout in LAYOUTS:
                found[way, layout].append(losses(text, splits[way], layout, encoder, kept[way]))
    joined = np.concatenate(beside)
    rates = {way: 1000 * np.concatenate(joints[way]).mean() for way in WAYS}
    parts = {"joint": joined, "elsewhere": ~joined, "all": slice(None)}
    print(json.dumps({"tokens": joined.size, "beside_a_joint": int(joined.sum())}))
    for way in WAYS:
        told = {"carved by": way, "joints_in_1000_tokens": round(rates[way], 2)}
        for layout in LAYOUTS:
            loss = np.concatenate(found[way, layout])
            told[layout] = {name: round(loss[part].mean(), 3) for name, part in parts.items()}
        print(json.dumps(told))
    raise SystemExit(int(rates["groups"] > LIMIT * rates["documents"]))


if __name__ == "__main__":
    main()
