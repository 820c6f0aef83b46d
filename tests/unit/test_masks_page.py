"""docs/masks.md, whose code knows nothing of this project, says what a training does."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mlm.evaluation.hidden_sets import evaluated_sets
from mlm.samples.masking import FIXED_EPOCH, MaskingPlan, mask_batch
from mlm.samples.sample_order import SampleOrder

PAGE = (Path(__file__).parents[2] / "docs" / "masks.md").read_text(encoding="utf-8")
VECTORS = json.loads(*re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
SPECIAL, MASK = [0, 1, 2, 3, 4], 4


@cache
def code_of_the_page() -> dict:
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    return names


@pytest.fixture
def page() -> dict:
    return code_of_the_page()


def ours(ids, attention, index, seed, epoch, *, vocabulary, whole_word, slots, **shares):
    """Targets and overflow by `mask_batch`."""
    plan = MaskingPlan(
        mlm_probability=shares["share"],
        mask_token=shares["mask_share"],
        random_token=shares["random_share"],
        mask_id=MASK,
        special_ids=tuple(SPECIAL),
        vocabulary_size=vocabulary,
        sequence_length=len(ids),
        whole_word=whole_word,
        word_starts=np.arange(vocabulary) % 3 == 0,
        fixed_slots=slots,
    )
    arrays = np.array([ids]), np.array([attention]), np.array([index])
    batch = {k: v[0] for k, v in mask_batch(*arrays, plan, seed, epoch).items()}
    places = np.sort(batch["positions"][batch["weights"] > 0]).tolist()
    return [[i, ids[i], int(batch["input_ids"][i])] for i in places], int(batch["overflow"])


def by_the_page(page, *sample, vocabulary, whole_word, **how):
    begins = [i % 3 == 0 for i in range(vocabulary)] if whole_word else None
    fixed = {"mask_id": MASK, "special": SPECIAL, "vocabulary": vocabulary, "begins_word": begins}
    targets, overflow = page["masked"](*sample, **how, **fixed)
    return [list(target) for target in targets], overflow


@pytest.mark.parametrize("vector", VECTORS["masks"], ids=lambda vector: vector["case"])
def test_the_vectors_are_those_of_the_page_and_of_a_training(page, vector):
    how = {"vocabulary": 40, "whole_word": vector.get("whole_word", False)}
    how |= {"slots": vector.get("slots")}
    how |= {name: vector[name] for name in ("share", "mask_share", "random_share")}
    sample = [*VECTORS["sample"].values(), *(vector[n] for n in ("index", "seed", "epoch"))]
    expected = vector["targets"], vector["overflow"]
    assert expected == by_the_page(page, *sample, **how) == ours(*sample, **how)


@pytest.mark.parametrize("whole_word", [False, True])
def test_masks_are_those_that_the_page_computes(page, whole_word):
    drawn, lengths = np.random.default_rng(0), []
    for number in range(150):
        length, vocabulary = int(drawn.integers(2, 70)), int(drawn.choice([7, 300, 70_000]))
        ids = np.where(drawn.random(length) < 0.1, 2, drawn.integers(0, vocabulary, length))
        attention = np.arange(length) < drawn.integers(0, length + 1)
        seed, index = (int(x) for x in drawn.integers(0, 2**32, 2))
        mask_share = float(drawn.random())
        how = {"share": float(drawn.uniform(0.01, 0.9)), "mask_share": mask_share}
        how |= {"random_share": float(drawn.uniform(0, 1 - mask_share)), "whole_word": whole_word}
        how |= {"vocabulary": vocabulary, "slots": [None, 1, 9][number % 3]}
        epoch = [0, 7, FIXED_EPOCH][number % 3]
        sample = ids.tolist(), attention.astype(int).tolist(), index, seed, epoch
        targets, overflow = ours(*sample, **how)
        assert (targets, overflow) == by_the_page(page, *sample, **how)
        lengths.append(len(targets))
    assert max(lengths) > 20


def test_random_bits_and_the_order_are_those_of_the_page(page):
    vector = VECTORS["threefry"]
    assert list(page["threefry"](vector["key"], vector["counter"])) == vector["words"]
    vector = VECTORS["order"]
    how = vector["shards"], vector["seed"], vector["window"]
    for place, expected in vector["places"].items():
        assert list(page["sample_at"](int(place), *how)) == expected
    for shards, seed, window in (how, ([1], 0, 5), ([3, 1024, 1025], 2**32 - 1, 1)):
        order = SampleOrder(tuple(shards), seed, window)
        places = np.unique(np.linspace(0, 3 * sum(shards) - 1, 60).astype(int))
        found = zip(*(part.tolist() for part in order.samples(places)), strict=True)
        assert [page["sample_at"](p, shards, seed, window) for p in places.tolist()] == list(found)


@pytest.mark.parametrize(("max_tokens", "pairs"), [(1000, 70), (999, 69), (300, 21), (1, 1)])
def test_sets_of_a_large_split_are_at_equal_distances(max_tokens, pairs):
    sample, number = evaluated_sets(10, 1000, 7, max_tokens)
    assert [*zip(sample.tolist(), number.tolist(), strict=True)] == [
        divmod(place * 70 // pairs, 7) for place in range(pairs)
    ]
