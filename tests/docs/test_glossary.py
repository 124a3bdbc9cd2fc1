"""The glossary names modules that exist, and each term once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TERMS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| `([\w.]+)` \|$",
    (ROOT / "docs/glossary.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_there_are_about_forty_terms_or_more_and_none_twice() -> None:
    names = [name for name, _ in TERMS]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("module", sorted({module for _, module in TERMS}))
def test_the_module_that_owns_a_term_exists(module: str) -> None:
    path = ROOT / "src" / module.replace(".", "/")
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
