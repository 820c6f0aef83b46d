"""The card of a published tokenizer, without text of the corpus."""

from huggingface_hub import ModelCardData

from mlm.config.corpus import Corpus
from mlm.config.publish import Publish
from mlm.corpus.artefacts import HubSource
from mlm.tokenizer.artefacts import TokenizerStatistics
from mlm.training.model_card import SOURCES, card, card_table


def published_source(publish: Publish, corpus: Corpus) -> str:
    """Return the origin of the text: `publish.source`, else the corpus in words."""
    source = publish.source or SOURCES[corpus.source]
    if corpus.source == "hub" and not publish.source:
        hub = corpus.hub
        source = str(HubSource("hub", "train", str(hub.dataset), hub.config, hub.revision))
    return " ".join(source.split())


def tokenizer_card(
    publish: Publish, source: str, tokens: dict[str, str], stats: TokenizerStatistics
) -> str:
    """Return README.md of the tokenizer, with its special `tokens` by name and its figures."""
    special = [(k, f"`{text}`") for k, text in sorted(tokens.items()) if isinstance(text, str)]
    rows = [
        (split, f"{s.tokens:,}", f"{s.tokens_per_word:.3f}", f"{s.unknown_rate:.4%}")
        for split, s in stats.splits.items()
    ]
    return card(
        ModelCardData(
            license=publish.license,
            language=publish.language,
            library_name="transformers",
            tags=["tokenizer", "masked-lm"],
        ),
        f"# {str(publish.tokenizer).split('/')[1]}",
        f"A tokenizer for masked language models: {stats.kind}, {stats.vocabulary_size:,} ids, for "
        f"{source}.",
        "## Use",
        "```python\nfrom transformers import AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{publish.tokenizer}")\n```',
        "## Special tokens",
        card_table(["", ""], special),
        "## On its corpus",
        card_table(["split", "tokens", "tokens a word", "unknown"], rows),
    )
