import json
import random
import re
import unicodedata
from pathlib import Path

import corpus_files
import numpy as np
import pytest
from corpus_files import SPLITS

from mlm.corpus.embedded_corpus import paragraphs, speeches
from mlm.corpus.words_and_minhash import signatures_of


def build(
    directory: Path, texts: dict[str, list[str]], remove_leakage: bool = True
) -> tuple[dict[str, list[str]], dict[str, dict]]:
    """By split the documents that are kept of `texts`, and what is said of them."""
    files = {}
    for split, documents in texts.items():
        path = directory / f"{split}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
        files[split] = [str(path)]
    filters = {"remove_leakage": remove_leakage, "near_duplicates": True}
    corpus = {"source": "files", "files": files, "filters": filters}
    kept = corpus_files.build(corpus, 0, directory)
    return kept, {split: corpus_files.described(split, directory) for split in SPLITS}


def ngrams(text: str, size: int = 5) -> set[tuple[str, ...]]:
    """The n-grams of a text of letters and digits, by another way than the project's."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def similarity(one: str, other: str) -> float:
    ours, theirs = ngrams(one), ngrams(other)
    return len(ours & theirs) / len(ours | theirs)


def edited(text: str, share: float, vocabulary: list[str], draws: random.Random) -> str:
    """`text` with `share` of its words left out, replaced, or with another one before them."""
    found = []
    for word in text.split():
        draw = draws.random() / share
        if draw >= 1 / 3:
            found += [draws.choice(vocabulary)] if draw < 1 else []
            found += [word] if draw >= 2 / 3 else []
    return " ".join(found)


@pytest.fixture(scope="module")
def real() -> list[str]:
    """Paragraphs of the embedded corpus in a drawn order, of 20 words or more, no two alike."""
    texts = [p for speech in speeches().values() for p in paragraphs(speech)]
    texts = [text for text in texts if len(text.split()) >= 20]
    random.Random(0).shuffle(texts)
    return texts


def test_edited_copies_are_found_with_an_f1_of_over_0_89(tmp_path, real):
    """By the n-grams that they really have in common; bands alone give 0.81."""
    draws, copies = random.Random(1), 1500
    vocabulary = " ".join(real[copies : copies + 300]).split()
    rates = [0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15]
    pairs = [(text, edited(text, draws.choice(rates), vocabulary, draws)) for text in real[:copies]]
    pairs = [(text, copy) for text, copy in pairs if text != copy]
    # Originals first: of a pair, they stay.
    texts = [text for text, _ in pairs] + [copy for _, copy in pairs]
    kept, _ = build(tmp_path, {"train": texts, "validation": ["other"], "test": ["another"]})
    left = set(kept["train"])
    alike = np.array([similarity(*pair) >= 0.75 for pair in pairs])
    found = np.array([copy not in left for _, copy in pairs])
    assert 0.3 < alike.mean() < 0.7
    assert 2 * (alike & found).sum() / (alike.sum() + found.sum()) > 0.89
    # Nothing else goes but what is alike in the original text.
    assert sum(text not in left for text, _ in pairs) < 0.01 * copies


def expected(texts: dict[str, list[str]], remove_leakage: bool) -> dict:
    """The documents that stay, by a comparison of each with the first of every key that it has."""
    every = [(split, text) for split in ("test", "validation", "train") for text in texts[split]]
    signatures, keys = signatures_of([text for _, text in every])
    root, kept = list(range(len(every))), {}

    def first(number: int) -> int:
        return number if root[number] == number else first(root[number])

    for split in ("test", "validation", "train"):
        own = [n for n, (of, _) in enumerate(every) if of == split]
        earlier = [n for n in range(own[0]) if remove_leakage and root[n] == n]
        of_key: dict[tuple[int, int], int] = {}
        for n in [*earlier, *own]:
            # Those of a text of fewer words than an n-gram has are zeros.
            for place in ((band, key) for band, key in enumerate(keys[n].tolist()) if key):
                other = of_key.setdefault(place, n)
                if n in own and (signatures[other] == signatures[n]).mean() >= 0.75:
                    low, high = sorted((first(other), first(n)))
                    root[high] = low
        kept[split] = [every[n][1] for n in own if root[n] == n]
    return kept


@pytest.mark.parametrize("remove_leakage", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_what_stays_is_what_a_comparison_with_the_first_of_each_key_leaves(
    tmp_path, seed, remove_leakage
):
    draws = random.Random(seed)
    base = [" ".join(draws.choices("abcdefgh", k=draws.randint(0, 60))) for _ in range(30)]
    texts = {split: [] for split in SPLITS}
    for number in range(150):
        words = draws.choice(base).split()
        if words and draws.random() < 0.6:
            words[draws.randrange(len(words))] = draws.choice("abcdefgh")
        # A number of its own keeps an exact duplicate from being found first.
        split = draws.choice(["train"] * 3 + ["validation", "test"])
        texts[split].append(" ".join(words) + " " + "." * (number + 1))
    kept, described = build(tmp_path, texts, remove_leakage)
    assert kept == expected(texts, remove_leakage)
    counts = described["train"]["filters"]
    assert counts["near_duplicate"] and bool(counts["near_leaked"]) == remove_leakage
    assert counts["read"] == counts["near_duplicate"] + counts["near_leaked"] + counts["kept"]
