"""The model card: README.md beside the weights."""


def model_card(summary: dict, corpus: str) -> str:
    """README.md of an exported model."""
    return f"---\nlibrary_name: transformers\npipeline_tag: fill-mask\n---\n# {summary['run']}\n"
