"""Does rounds of housekeeping on the folder it is given, until it is killed.

Run with the folder; each line of its input is a segment to go up to, each line of output a round that is
over.
"""

import sys
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - loaded before the first round, so that a kill hits the round itself.

from driftq.housekeeping.round import run_round
from driftq.log.disk import OsFolder
from driftq.model.options.limits import Limits
from driftq.tables.writer import Tables


def main() -> None:
    data = Path(sys.argv[1])
    folder = OsFolder(data / "log")
    projections = [Tables(str(data / "tables"), folder)]
    print("ready", flush=True)
    for line in sys.stdin:
        run_round(folder, limits=Limits(), upto=int(line), projections=projections)
        print("done", flush=True)


if __name__ == "__main__":
    main()
