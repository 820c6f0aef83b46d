"""In what two nested values differ, in words."""


def differences(
    before: object, now: object, place: str = "", words: tuple[str, str] = ("then", "now")
) -> list[str]:
    """A line for each leaf in which two nested values differ; `words` tell the two apart."""
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            line
            for key in sorted(before.keys() | now.keys())
            for line in differences(
                before.get(key, "nothing"),
                now.get(key, "nothing"),
                f"{place}.{key}" if place not in ("", "code") else f"{place} {key}".strip(),
                words,
            )
        ]
    if place.split(" ")[0] in ("code", "manifests", "tokenizer") or place.startswith("manifests"):
        return [f"{place} is another"]
    return [f"{place}: {before!r} {words[0]}, {now!r} {words[1]}"]
