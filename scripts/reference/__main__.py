"""Write docs/reference, or compare it with the code.

python -m scripts.reference            write every page
python -m scripts.reference --check    fail if a page is not what would be written
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))  # The pages describe this tree, whatever else is installed.

from scripts.reference import (  # noqa: E402
    cli_page,
    errors_page,
    http_page,
    metrics_page,
    python_page,
    settings_page,
    walks_page,
)

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/http.md": http_page.page,
    "docs/reference/python.md": python_page.page,
    "docs/reference/cli.md": cli_page.page,
    "docs/reference/settings.md": settings_page.page,
    "docs/reference/metrics.md": metrics_page.page,
    "docs/reference/errors.md": errors_page.page,
    "docs/explanation/walks.md": walks_page.page,
}


def outdated(root: Path = ROOT, pages: Mapping[str, Callable[[], str]] = PAGES) -> dict[str, str]:
    """The pages that differ from the code, each with the text that it should have."""
    wanted = {name: page() for name, page in pages.items()}
    return {
        name: text
        for name, text in wanted.items()
        if not (root / name).exists() or _settled((root / name).read_text(encoding="utf-8")) != _settled(text)
    }


def _settled(text: str) -> str:
    """Without the line numbers of links: they move with every change, and a link that is off still helps."""
    return re.sub(r"#L\d+\)", ")", text)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is outdated")
    options = parser.parse_args(arguments)
    stale = outdated(root)
    for name, text in stale.items():
        if options.check:
            print(f"{name} is not what the code says: run `make reference`", file=sys.stderr)
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        print(f"{name} written")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
