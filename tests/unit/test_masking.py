from dataclasses import replace

import jax
import numpy as np
import pytest

from mlm.samples.masking import MaskingPlan, mask_batch

VOCABULARY, LENGTH = 500, 64
CLS, PAD, SEP, UNK, MASK = range(5)


def plan(**changes) -> MaskingPlan:
    return replace(
        MaskingPlan(0.15, 0.8, 0.1, MASK, tuple(range(5)), VOCABULARY, LENGTH), **changes
    )


def samples(count: int, padding: int = 5):
    """A special token at every tenth place, and padding, of which every other has ordinary ids."""
    random = np.random.default_rng(0)
    ids = random.integers(5, VOCABULARY, (count, LENGTH))
    ids[:, ::10] = random.choice([CLS, SEP, UNK, MASK], (count, len(range(0, LENGTH, 10))))
    attention = np.ones_like(ids)
    ids[::2, LENGTH - padding :] = PAD
    attention[:, LENGTH - padding :] = 0
    return ids, attention


def masked(ids, attention, the_plan, *, first=0, seed=11, epoch=3) -> dict[str, np.ndarray]:
    index = np.arange(first, first + len(ids))
    return mask_batch(ids, attention, index, the_plan, seed, epoch)


def chosen_in(found) -> np.ndarray:
    """Which tokens are asked for: bool [samples, sequence]."""
    chosen = np.zeros(found["input_ids"].shape, bool)
    np.put_along_axis(chosen, found["positions"], found["weights"] == 1, axis=1)
    return chosen


def test_the_chosen_are_shown_80_10_10():
    ids, attention = samples(4000)
    found = masked(ids, attention, plan())
    chosen = chosen_in(found)
    shown, truth = found["input_ids"][chosen], ids[chosen]
    n = len(truth)
    as_mask, kept = (shown == MASK).mean(), (shown == truth).mean()
    # A random token is the true one in 1 of 495 cases; six standard deviations allowed.
    same_by_chance = 0.1 / (VOCABULARY - 5)
    assert abs(as_mask - 0.8) < 6 * np.sqrt(0.8 * 0.2 / n)
    assert abs(kept - 0.1 - same_by_chance) < 6 * np.sqrt(0.1 * 0.9 / n)
    assert abs(1 - as_mask - kept - 0.1 + same_by_chance) < 6 * np.sqrt(0.1 * 0.9 / n)


def test_nothing_else_changes_and_no_special_token_or_padding_is_chosen_or_put_in():
    ids, attention = samples(2000)
    found = masked(ids, attention, plan(mlm_probability=0.9))
    chosen = chosen_in(found)
    assert chosen.sum() == found["weights"].sum() > 60_000
    assert not chosen[(ids < 5) | (attention == 0)].any()
    put_in = found["input_ids"][chosen & (found["input_ids"] != MASK)]
    assert put_in.min() >= 5 and put_in.max() < VOCABULARY
    np.testing.assert_array_equal(found["input_ids"][~chosen], ids[~chosen])
    truth = np.take_along_axis(ids, found["positions"], axis=1)
    np.testing.assert_array_equal(found["labels"], truth)
    nothing = masked(np.full((3, LENGTH), SEP), np.ones((3, LENGTH), int), plan())
    assert nothing["weights"].sum() == 0 and (nothing["input_ids"] == SEP).all()


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_of_chosen_tokens_is_exact_in_expectation(share):
    ids, attention = samples(4000)
    found = masked(ids, attention, plan(mlm_probability=share))
    eligible = ((ids >= 5) & (attention == 1)).sum(axis=1)
    chosen = found["weights"].sum(axis=1)
    # Each sequence is within one of its share, and the rounding averages out.
    assert np.abs(chosen - share * eligible).max() < 1
    assert abs(chosen.sum() / eligible.sum() - share) < 6 * 0.5 * np.sqrt(4000) / eligible.sum()
    assert found["overflow"].sum() == 0


@pytest.mark.parametrize("whole_word", [False, True])
def test_a_sample_has_the_same_mask_at_any_batch_size(whole_word):
    ids, attention = samples(24)
    the_plan = plan(whole_word=whole_word, word_starts=np.arange(VOCABULARY) % 3 == 0)
    whole = masked(ids, attention, the_plan)
    for size in (1, 5, 24):
        parts = [
            masked(ids[i : i + size], attention[i : i + size], the_plan, first=i)
            for i in range(0, 24, size)
        ]
        for key, value in whole.items():
            np.testing.assert_array_equal(np.concatenate([p[key] for p in parts]), value)


def test_a_word_is_chosen_as_often_as_the_share_says_however_long_it_is():
    lengths, draws = [1, 2, 3, 4] * 6, 4000
    ids = np.concatenate([[5 + VOCABULARY // 2, *[6] * (n - 1)] for n in lengths])
    ids = np.concatenate([ids, np.full(LENGTH - len(ids), SEP)])
    the_plan = plan(whole_word=True, word_starts=np.arange(VOCABULARY) >= VOCABULARY // 2)
    found = masked(np.tile(ids, (draws, 1)), np.ones((draws, LENGTH), int), the_plan)
    first = np.cumsum([0, *lengths[:-1]])
    frequency = chosen_in(found)[:, first].mean(axis=0).reshape(-1, 4).mean(axis=0)
    # Five standard deviations of independent draws.
    assert np.abs(frequency - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / (6 * draws))


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("vocabulary", [VOCABULARY, 250_002])
def test_numpy_and_jax_draw_the_same_masks_to_the_last_bit(whole_word, vocabulary):
    ids, attention = samples(300)
    starts = np.arange(vocabulary) % 3 == 0
    the_plan = plan(whole_word=whole_word, word_starts=starts, vocabulary_size=vocabulary)
    seed, epoch, index = 2**32 - 5, np.arange(300) % 4, np.arange(2**32 - 300, 2**32)
    ours = mask_batch(ids, attention, index, the_plan, seed, epoch)
    drawn = jax.jit(lambda *a: mask_batch(*a[:3], the_plan, seed, a[3]))
    theirs = drawn(ids, attention, index.astype(np.uint32), epoch)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
