"""`python -m bench.page [--check] [FILE …]`: the documentation's figures, tables and charts."""

import argparse
import sys
from pathlib import Path

from bench.page import charts, markdown, results


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-page", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="the JSON of a run")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where something differs")
    given = parser.parse_args()
    found = results.read()
    for file in given.files:
        found = results.take_over(found, results.read(file))
    made = {
        charts.PAGE: charts.page(found),
        markdown.PAGE: markdown.filled(markdown.PAGE.read_text(), found),
    }
    if given.check:
        stale = [str(file) for file, text in made.items() if not file.exists() or file.read_text() != text]
        if stale:
            print(
                f"not as {results.FILE.name} says: {', '.join(stale)}; run make bench-page", file=sys.stderr
            )
        return bool(stale)
    if given.files:
        results.write(found)
        found = results.read()
        made = {
            charts.PAGE: charts.page(found),
            markdown.PAGE: markdown.filled(markdown.PAGE.read_text(), found),
        }
    for file, text in made.items():
        file.write_text(text)
        print(f"written: {file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
