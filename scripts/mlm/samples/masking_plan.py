"""The masking that the configuration asks for, in terms of the tokenizer's ids."""

from mlm.config.pretraining import Masking
from mlm.foundations.atomic import read_json
from mlm.samples.masking import MaskingPlan
from mlm.tokenizer.encoding import Encoder
from mlm.tokenizer.pieces import word_starts


def masking_plan(
    masking: Masking, encoder: Encoder, tokenizer_json: str, length: int
) -> MaskingPlan:
    """The plan that section `pretraining.masking` asks for, with the tokenizer's ids."""
    return MaskingPlan(
        mlm_probability=masking.mlm_probability,
        mask_token=masking.mask_token,
        random_token=masking.random_token,
        mask_id=encoder.special_ids.mask,
        special_ids=tuple(sorted(encoder.special().values())),
        vocabulary_size=encoder.vocabulary_size,
        sequence_length=length,
        whole_word=masking.whole_word,
        word_starts=word_starts(read_json(tokenizer_json)) if masking.whole_word else None,
        fixed_slots=masking.slots,
    )
