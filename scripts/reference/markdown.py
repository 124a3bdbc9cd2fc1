"""What every generated page needs: its head, tables, and links to the guides."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_GUIDE = re.compile(r"\(guide:([a-z0-9-]+\.md)(#[a-z0-9-]+)?\)")


def head(title: str, source: str) -> list[str]:
    """The title and, for people who open the file, where its text comes from."""
    return [f"# {title}", f"<!-- Made by `make reference` from {source}; do not edit. -->"]


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(headers)} |", f"|{'---|' * len(headers)}"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """One line without a bar of its own."""
    return " ".join(text.split()).replace("|", "\\|") or " "


def code(text: object) -> str:
    return f"`{text}`"


def anchor(heading: str) -> str:
    """The id that the documentation tool gives a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def one_paragraph(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def with_guides(text: str, docs: Path = DOCS) -> str:
    """Replace `(guide:retries.md#anchor)` by the relative path of that page, in whichever section it is."""

    def path(match: re.Match[str]) -> str:
        found = sorted(docs.rglob(match[1])) or sorted(docs.rglob(f"[0-9]*-{match[1]}"))  # Else a decision.
        if len(found) != 1:
            raise LookupError(f"{len(found)} pages under docs are called {match[1]}, and a link needs one")
        relative = found[0].relative_to(docs)
        inside = relative.parts[0] == "reference"
        return f"({relative.name if inside else '../' + relative.as_posix()}{match[2] or ''})"

    return _GUIDE.sub(path, text)


def joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
