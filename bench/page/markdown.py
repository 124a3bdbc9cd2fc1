"""The tables of `docs/explanation/benchmarks.md`, between two marks."""

from collections.abc import Sequence
from pathlib import Path

from bench.harness.plan import STEAL_MAX
from bench.page.results import Result, by_benchmark, runs
from bench.report import told

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "benchmarks.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def filled(page: str, results: Sequence[Result]) -> str:
    """The page with the tables of these results. Raises ValueError where a mark is missing."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} or no {END}")
    return f"{before}{BEGIN}\n\n{tables(results)}\n{END}{after}"


def tables(results: Sequence[Result]) -> str:
    parts = [_measured_on(results)]
    groups = by_benchmark(results)
    compared = {name: group for name, group in groups.items() if any(one.steal is not None for one in group)}
    for name, group in compared.items():
        parts += [f"### {name}\n", _compared(group)]
    others = [one for name, group in groups.items() if name not in compared for one in group]
    if others:
        parts += ["### Measured before, without steal and processor time\n", _plain(others)]
    return "\n".join(parts)


def _measured_on(results: Sequence[Result]) -> str:
    lines = [
        f"- {', '.join(f'`{name}`' for name in names)}: {machine or 'a machine with two virtual cores'}"
        f"{f'; revision `{revision}`' if revision else ''}"
        for machine, revision, names in runs(results)
    ]
    return "\n".join(lines) + "\n"


def _compared(group: Sequence[Result]) -> str:
    lines = ["| Measured | Figure | Beside it | Ratio | Target | CPU µs | Steal | Rounds |",
             "|---|---:|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for one in group:
        cells = (
            one.name,
            told(one.value, one.unit),
            one.ratio_to or "",
            "" if one.ratio is None else f"{one.ratio:.2f}×",
            target(one),
            "" if one.cpu_us is None else f"{one.cpu_us:,.1f}",
            _steal(one),
            str(one.rounds),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _steal(one: Result) -> str:
    """Bold where even the rounds that count were disturbed."""
    if one.steal is None:
        return ""
    return f"**{one.steal:.1%}**" if one.steal > STEAL_MAX else f"{one.steal:.1%}"


def _plain(results: Sequence[Result]) -> str:
    lines = ["| `ARGS=` | Measured | Figure | Target |", "|---|---|---:|---:|"]
    lines += [
        f"| `{one.benchmark}` | {one.name} | {told(one.value, one.unit)} | {target(one)} |" for one in results
    ]
    return "\n".join(lines) + "\n"


def target(one: Result) -> str:
    """The bound, with a mark where it does not hold."""
    bound = one.ratio_aim or one.aim or ""
    return f"{bound} (short)" if bound and one.held is False else bound
