"""The fold of a projection beside stream processors from PyPI, on the same events in one run.

The others read a Parquet file and keep their states in memory; DriftQ reads the topic and writes to
PostgreSQL with guard and registry. The comparison is not fair, and not in our favour.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.harness.figure import Figure
from bench.peers.place import PEERS, ROOT
from bench.projection import EVENTS, aggregates_of, bare, fill, open_bed, project, warm_up

_DONE_IN_S = 1_800.0


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    script: str


OTHERS = (Peer("Bytewax", "bytewax_fold.py"), Peer("Pathway", "pathway_fold.py"))


class Done(msgspec.Struct):
    """What a script prints last."""

    rows: int
    seconds: float


def beside_others(events: int = EVENTS) -> list[Figure]:
    """Events a second of each, and how DriftQ compares."""
    if not (PEERS / "bin" / "python").exists():
        raise SystemExit("the others are not installed: run `make bench ARGS=stream-peers`")
    with open_bed() as bed:
        file = str(bed.place / "events.parquet")
        fill(bed, "events.bench", events, copy_to=file)
        warm_up(bed)
        ours = events / project(bed, "bench", events)
        spark = events / bare(bed.spark, file)
        others = [(peer, _fold(peer, file, events)) for peer in OTHERS]
    figures = [
        Figure(f"topic → PostgreSQL on Spark, {events:,} events", ours, "/s"),
        Figure("the same fold with PySpark alone, no target", spark, "/s"),
    ]
    for peer, rate in others:
        name = f"the same fold with {peer.name}, no target"
        if isinstance(rate, str):
            figures.append(Figure(f"{name}: {rate}", 0, "/s"))
        else:
            figures.append(Figure(name, rate, "/s", ratio_to="DriftQ", ratio=rate / ours))
    return figures


def _fold(peer: Peer, file: str, events: int) -> float | str:
    """Events a second; or why there is no such number."""
    script = Path(ROOT) / "bench" / "peers" / peer.script
    ran = subprocess.run(
        [PEERS / "bin" / "python", script, file],
        capture_output=True,
        text=True,
        timeout=_DONE_IN_S,
        check=False,
    )
    lines = ran.stdout.strip().splitlines()
    if ran.returncode or not lines:
        return (ran.stderr.strip().splitlines() or ["it said nothing"])[-1][:80]
    done = msgspec.convert(json.loads(lines[-1]), Done)
    assert done.rows == aggregates_of(events), (peer.name, done)
    return events / done.seconds
