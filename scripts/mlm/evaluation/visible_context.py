"""How much context a model uses: its loss at the same positions with fewer tokens visible.

After Khandelwal, He, Qi and Jurafsky, "Sharp Nearby, Fuzzy Far Away: How Neural Language Models
Use Context" (2018), for both sides: only the tokens within a window around the asked position are
visible. The others become mask tokens, as which models know hidden tokens from their training; they
never met rows whose attention skips most of the text. A document's first and last token, which are
never masked in training, are hidden by the attention mask.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from mlm.evaluation.artefacts import (
    ContextCurve,
    ContextOfNgram,
    ContextStep,
    Difference,
)
from mlm.evaluation.bootstrap import Resampling
from mlm.evaluation.predictions import Positions, Ranked, positions_of
from mlm.samples.split_samples import Samples, evenly_spread, joined
from mlm.tokenizer.pieces import texts_of

#: Tokens that are visible on either side, but for the sentence and all.
REACHES = (0, 1, 2, 4, 8, 16)
#: How many tokens on either side each n-gram sees.
_SEEN_BY = {"unigram": 0, "bigram": 1, "trigram": 2}
#: Tokens of the rows that are asked at a time, which bounds the memory.
_TOKENS_AT_ONCE = 4_000_000
#: Ends the piece that ends a sentence, in many scripts, quotes and brackets after it included.
_SENTENCE_END = re.compile(r"[.!?…‼⁇-⁉。！？｡．։؟۔।॥።][\"'”’»›)\]}」』】）]*\s*$")


@dataclass(frozen=True)
class AskedPositions:
    """Asked `positions`, each with its sample in a row of its own: `samples` [positions]; `ends`
    [vocabulary] says which ids end a sentence."""

    positions: Positions
    samples: Samples
    ends: np.ndarray

    @classmethod
    def blocks(
        cls, positions: Positions, samples: Samples, count: int, tokenizer
    ) -> Iterator["AskedPositions"]:
        """At most `count` of the predicted `positions` of `samples`, at equal distances, in blocks
        that fit in memory."""
        ends, chosen = _ending_ids(samples, tokenizer), evenly_spread(len(positions), count)
        size = max(1, _TOKENS_AT_ONCE // samples.input_ids.shape[1])
        for start in range(0, len(chosen), size):
            block = positions[chosen[start : start + size]]
            yield cls(block, samples[np.searchsorted(samples.index, block.sample)], ends)

    def windows(self, tokenizer, within_documents: bool) -> dict[int | str, np.ndarray]:
        """By what is visible: which tokens are, the asked one included, bool [positions, sequence].

        `within_documents`: a window ends with the document. There is no sentence if no id ends one,
        and no reach that sees all.
        """
        ids, place = self.samples.input_ids, self.positions.position[:, None]
        whole = self.samples.attention_mask
        if within_documents:
            whole = whole & _around(ids == tokenizer.cls_token_id, place)
        distance = np.abs(np.arange(ids.shape[1]) - place)
        found: dict[int | str, np.ndarray] = {
            reach: whole & (distance <= reach) for reach in REACHES if reach < ids.shape[1] - 1
        }
        if self.ends.any():
            # The next one begins; what is rolled to the front divides nothing.
            begins = np.roll(self.ends[ids] | (ids == tokenizer.sep_token_id), 1, axis=1)
            found["sentence"] = whole & _around(begins, place)
        return found | {"all": whole}

    def question(self, visible: np.ndarray, tokenizer) -> dict[str, np.ndarray]:
        """What a model is asked if the tokens `visible` [positions, sequence] are: the arrays of
        mlm.evaluation.scoring.ASKED."""
        ids, place = self.samples.input_ids, self.positions.position[:, None]
        # Ids around documents stay, since they say where one begins, and padding is padding.
        frame = np.isin(ids, [tokenizer.cls_token_id, tokenizer.sep_token_id])
        frame |= ~self.samples.attention_mask
        shown = np.where(visible | frame, ids, tokenizer.mask_token_id)
        np.put_along_axis(shown, place, tokenizer.mask_token_id, axis=1)
        return {
            "input_ids": shown.astype(np.int32),
            "attention_mask": (visible | ~frame).astype(np.int32),
            "positions": place,
            "labels": self.positions.truth[:, None],
        }

    def seeing(self, visible: np.ndarray) -> Positions:
        """The positions with the neighbours that are `visible` [positions, sequence] alone."""
        ids = self.samples.input_ids
        asked = np.arange(ids.shape[1]) == self.positions.position[:, None]
        index, group = self.samples.index, self.samples.group
        return positions_of(ids, visible, ids, asked, index, group)


def context_curve(
    blocks: Iterable[AskedPositions],
    tokenizer,
    within_documents: bool,
    log_probabilities: Callable[[dict[str, np.ndarray]], np.ndarray],
    ngrams: Callable[[Positions, str], dict[str, Ranked]],
    resampling: Resampling,
) -> ContextCurve | None:
    """The loss by visible context, and beside it that of the `ngrams`, given what they see; None if
    nothing is asked.

    `log_probabilities` [positions] answer a question of `AskedPositions`; `ngrams` take a label for
    the progress line. All intervals draw the same groups, so that differences are paired.
    """
    found, visible_tokens, seen = defaultdict(list), defaultdict(list), []
    for asked in blocks:
        windows = asked.windows(tokenizer, within_documents)
        for visible, window in windows.items():
            found[visible].append(-log_probabilities(asked.question(window, tokenizer)))
            visible_tokens[visible].append(window.sum(axis=1) - 1)
        seen.append(asked.seeing(windows[max(windows.keys() & set(_SEEN_BY.values()))]))
    if not seen:
        return None
    positions = joined(seen)
    losses: dict[int | str, np.ndarray] = {v: np.concatenate(parts) for v, parts in found.items()}
    reaches = {name: reach for name, reach in _SEEN_BY.items() if reach in losses}
    scores = ngrams(positions, "n-grams of that context")
    losses |= {name: scores[name].loss for name in reaches}
    means = resampling.means(positions.unit, *losses.values())
    drawn = dict(zip(losses, means.T, strict=True))

    def mean(of: int | str) -> dict:
        return {
            "loss": float(losses[of].mean()),
            "loss_interval": resampling.interval(drawn[of]),
        }

    def less(one: int | str, other: int | str) -> Difference:
        difference = float(np.mean(losses[one] - losses[other]))
        return Difference(difference, resampling.interval(drawn[one] - drawn[other]))

    return ContextCurve(
        num_predictions=len(positions),
        steps=[
            ContextStep(
                **asdict(less(visible, "all")),
                **mean(visible),
                visible=visible,
                tokens=float(np.concatenate(numbers).mean()),
            )
            for visible, numbers in visible_tokens.items()
        ],
        ngrams={
            name: ContextOfNgram(
                **mean(name), visible=reach, same=less(reach, name), all=less("all", name)
            )
            for name, reach in reaches.items()
        },
    )


def _around(begins: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Which tokens are in one stretch with the one at `place` [rows, 1], where stretches begin at
    `begins` [rows, sequence]."""
    number = np.cumsum(begins, axis=1)
    return number == np.take_along_axis(number, place, axis=1)


def _ending_ids(samples: Samples, tokenizer) -> np.ndarray:
    """Whether a sentence ends with each id that `samples` have, bool [vocabulary], by the piece
    alone, so that abbreviations end one, too."""
    ends, known = np.zeros(len(tokenizer), bool), np.unique(samples.input_ids)
    texts = texts_of(tokenizer, known.tolist())
    ends[known] = [bool(_SENTENCE_END.search(text)) for text in texts]
    return ends
