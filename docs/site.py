"""Sections of the README on pages of the site (mkdocs.yml), and links that leave docs/."""

import re
from pathlib import Path

_README = Path(__file__).parents[1] / "README.md"
#: A section of the README, wanted on a page of the site.
_WANTED = re.compile(r"<!-- README: (.+) -->")
#: A link to a file outside of docs/, as it works in a checkout.
_OUTSIDE = re.compile(r"\[([^]]+)\]\(\.\./([^)#\s]+)(?:#([^)\s]+))?\)")


def _section(title: str) -> str:
    """The text below the README's heading `title`, up to the next of its level or a higher one."""
    lines = _README.read_text(encoding="utf-8").splitlines()
    starts = [i for i, line in enumerate(lines) if re.fullmatch(f"#+ {re.escape(title)}", line)]
    if len(starts) != 1:
        raise ValueError(f"README.md has {len(starts)} sections {title!r}; one is expected")
    level = len(lines[starts[0]].split()[0])
    fenced, end = False, len(lines)
    for i in range(starts[0] + 1, len(lines)):
        fenced ^= lines[i].startswith("```")
        if not fenced and re.match(rf"#{{1,{level}}} ", lines[i]):
            end = i
            break
    text = "\n".join(lines[starts[0] + 1 : end])
    # Links of the README begin at the top, those of a page in docs/.
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((?![a-z]+:|#)(?!\S*\.md[#)])", "](../", text)


def on_page_markdown(markdown: str, page, **_) -> str:
    """`markdown` with the wanted sections, and without links to files that the site lacks."""
    markdown = _WANTED.sub(lambda wanted: _section(wanted[1]), markdown)

    def inside(link: re.Match) -> str:
        text, file, anchor = link.groups()
        if file == "README.md":
            above = "../" * page.file.src_uri.count("/")
            return f"[{text}]({above}install.md{f'#{anchor}' if anchor else ''})"
        return text if text.startswith("`") else f"`{file}`"

    return _OUTSIDE.sub(inside, markdown)
