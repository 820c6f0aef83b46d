import numpy as np
import pytest
from test_sharding import made  # noqa: F401

from mlm.samples.masking import MaskingPlan, mask_batch
from mlm.samples.preview import preview_samples
from mlm.samples.sample_order import SampleOrder
from mlm.samples.shard_reading import spread_samples
from mlm.samples.sharding import merged_manifest

PLAN = MaskingPlan(0.4, 0.8, 0.1, 4, (0, 1, 2, 3, 4), 133, 8)


class OneCharacter:
    """As much of transformers' tokenizer as decoding needs, for the fake tokenizer's ids."""

    all_special_ids = (0, 1, 2, 3, 4)
    pad_token_id = 1
    names = ("[CLS]", "<pad>", "[SEP]", "<unk>", "[MASK]")

    class backend_tokenizer:
        model = None

    def convert_ids_to_tokens(self, ids):
        return [self.decode([i]) for i in ids]

    def decode(self, ids, clean_up_tokenization_spaces=False):
        return "".join(self.names[i] if i < 5 else chr(i - 5) for i in ids)


def order_of(manifest) -> SampleOrder:
    return SampleOrder(tuple(s.num_samples for s in manifest.shards), seed=0, window=100)


@pytest.fixture
def manifest(made):  # noqa: F811
    _, parts, split = made
    return merged_manifest(parts, split)


def samples_of(manifest):
    return preview_samples(manifest, PLAN, order_of(manifest), OneCharacter(), 1000)


def test_the_text_is_that_of_the_corpus_and_only_chosen_tokens_differ(manifest):
    samples = samples_of(manifest)
    assert [s.index for s in samples] == list(range(manifest.num_samples))
    text = "".join(s.text for s in samples)
    assert text == "".join(f"[CLS]document number {i}[SEP]" for i in range(10))
    for sample in samples:
        assert "".join(t.text for t in sample.tokens) == sample.text
        shown = "".join(t.text if t.masked is None else t.masked for t in sample.tokens)
        assert shown == sample.masked
    assert sum("[MASK]" in s.masked for s in samples) > len(samples) / 2


def test_masks_and_turns_are_those_of_the_first_epoch_of_training(manifest):
    read = spread_samples(manifest)
    index, ids, mask = read.index, read.input_ids, read.attention_mask
    batch = mask_batch(ids, mask, index, PLAN, 0, 0)
    every = {s.index: s for s in samples_of(manifest)}
    for row, number in enumerate(index.tolist()):
        length = int(mask[row].sum())
        shown = OneCharacter().decode(batch["input_ids"][row, :length].tolist())
        assert every[number].masked == shown
        chosen = np.flatnonzero([t.masked is not None for t in every[number].tokens])
        weights = batch["weights"][row]
        assert sorted(batch["positions"][row][weights > 0]) == chosen.tolist()
    _, used = order_of(manifest).samples(np.arange(len(index)))
    assert [every[number].turn for number in used.tolist()] == list(range(1, len(index) + 1))
