"""`python -m bench.work [--record] [REVISION]`: counted work of this checkout beside a version of it."""

import argparse
import sys

from bench.work.compare import RATIO_MAX, Counted, compare, record, recorded
from bench.work.source import NoSuchVersion, head


def main() -> int:
    parser = argparse.ArgumentParser(prog="make work", description=__doc__)
    parser.add_argument("revision", nargs="?", help="the version to compare with (default: the recorded one)")
    parser.add_argument(
        "--record", action="store_true", help="let later comparisons be with the current commit"
    )
    given = parser.parse_args()
    revision = given.revision or recorded().revision
    print(f"counting work beside {revision[:10]} …", file=sys.stderr, flush=True)
    try:
        figures = compare(revision)
    except NoSuchVersion:
        print(f"{revision} is not in this checkout's history: name another revision", file=sys.stderr)
        return 2
    show(figures)
    if given.record:
        record(head(), figures)
    faults = [fault for one in figures for fault in one.faults(recorded())]
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


def show(figures: list[Counted]) -> None:
    print(f"{'operation':<32}{'unit':>14}{'before':>14}{'now':>14}{'ratio':>9}")
    for one in figures:
        mark = "" if one.ratio <= RATIO_MAX else f"   above {RATIO_MAX}"
        print(f"{one.name:<32}{one.unit:>14}{one.before:>14,.1f}{one.now:>14,.1f}{one.ratio:>9.3f}{mark}")


if __name__ == "__main__":
    raise SystemExit(main())
