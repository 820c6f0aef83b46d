"""Masked samples for the terminal."""

from mlm.samples.artefacts import Preview


def in_words(previews: list[Preview]) -> str:
    """Previews for the terminal: each text, then the same masked."""
    lines = []
    for preview in previews:
        for sample in preview.samples:
            lines += [
                f"Run {preview.run}, sample {sample.index}, turn {sample.turn:,} of the first pass",
                f"  text    {printable(sample.text)}",
                f"  masked  {printable(sample.masked)}",
                "",
            ]
    return "\n".join(lines)


def printable(text: str) -> str:
    """`text` on one line, without characters that would steer the terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
