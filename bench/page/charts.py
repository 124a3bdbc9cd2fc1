"""The page of charts: one file that needs nothing beside it, light or dark as its reader prefers.

A bar is a figure as a multiple of what it stands beside, each on a scale of its own. The line across is the
target, the dashed one 1×, and the dots are the rounds: hollow and dashed where a round was discarded.
"""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from bench.page.results import FILE, Result, by_benchmark, runs
from bench.report import told

PAGE = FILE.with_name("index.html")
_TEMPLATE = Path(__file__).with_name("charts.html")
_WIDTH, _HEIGHT = 400, 22
_METHOD = (
    "Each figure is the median of rounds in which both sides ran by turns. A round in which the host kept "
    "back more than 5 % of the processors’ time (steal) is discarded for both sides and repeated. A bar is "
    "the median ratio to what stands beside it, on a scale of its own: the line across it is the target, the "
    "dashed line 1×, a dot one round. CPU is the server’s processor time for one operation."
)


def page(results: Sequence[Result]) -> str:
    sections: list[str] = []
    plain: list[Result] = []
    for name, group in by_benchmark(results).items():
        compared = [one for one in group if one.ratio is not None]
        if compared:
            sections.append(_section(name, compared))
        plain += [one for one in group if one.ratio is None]
    if plain:
        sections.append(_table(plain))
    template = Template(_TEMPLATE.read_text())
    return template.substitute(intro=_intro(results), sections="\n".join(sections))


def _intro(results: Sequence[Result]) -> str:
    items = [
        f"<li>{escape(machine or 'a machine with two virtual cores')}"
        f"{f', revision {escape(revision)}' if revision else ''}: {escape(', '.join(names))}</li>"
        for machine, revision, names in runs(results)
    ]
    return f"<p>{_METHOD}</p>\n<ul>\n{chr(10).join(items)}\n</ul>"


def _section(name: str, group: Sequence[Result]) -> str:
    rows = "\n".join(_row(one, _scale(one)) for one in group)
    return f'<section>\n<h2 id="{escape(name)}">{escape(name)}</h2>\n{rows}\n</section>'


def _bound(one: Result) -> float | None:
    return float(one.ratio_aim.strip("≥≤<= ×").replace(",", "")) if one.ratio_aim else None


def _scale(one: Result) -> float:
    """What the right end of the bar stands for."""
    return 1.15 * max(one.ratio or 0.0, _bound(one) or 0.0, 1.0)


def _row(one: Result, scale: float) -> str:
    kind = "plain" if one.held is None else ("good" if one.held else "short")
    mark = {
        "plain": "",
        "good": '<span class="mark-good">✓</span>',
        "short": '<span class="mark-short">✗</span>',
    }
    facts = [told(one.value, one.unit)]
    if one.cpu_us is not None:
        facts.append(f"{one.cpu_us:,.1f} µs CPU")
    if one.steal is not None:
        facts.append(f"steal {one.steal:.1%}")
    bound = one.ratio_aim or (f"{one.aim} {one.unit}" if one.aim else "")
    aim = f"<span>target {escape(bound)} {mark[kind]}</span>" if bound else mark[kind]
    beside = f"<small>beside {escape(one.ratio_to or '')}</small>"
    return (
        f'<div class="row"><div class="name">{_code(one.name)}{beside}</div>'
        f'{_bar(one, scale, kind)}<div class="told"><b>{one.ratio:.2f}×</b> {aim}'
        f"<small>{escape(' · '.join(facts))}</small></div></div>"
    )


def _bar(one: Result, scale: float, kind: str) -> str:
    def at(ratio: float) -> str:
        return f"{min(_WIDTH, ratio / scale * _WIDTH):.1f}"

    said = f"{one.ratio:.2f} times {one.ratio_to}"
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none"'
    parts = [
        f'<svg class="bar" {box} role="img" aria-label="{escape(said)}">',
        f'<rect class="track" y="4" width="{_WIDTH}" height="14" rx="2"/>',
        f'<rect class="{kind}" y="4" width="{at(one.ratio or 0.0)}" height="14" rx="2"/>',
        f'<line class="one" x1="{at(1)}" x2="{at(1)}" y1="2" y2="20"/>',
    ]
    bound = _bound(one)
    if bound is not None:
        parts.append(f'<line class="aim" x1="{at(bound)}" x2="{at(bound)}" y1="0" y2="22"/>')
    for shown in one.each_round:
        if shown.beside:
            mark = "kept" if shown.kept else "discarded"
            place = at(min(shown.value / shown.beside, 0.985 * scale))
            parts.append(f'<circle class="{mark}" cx="{place}" cy="11" r="3"/>')
    return "".join([*parts, "</svg>"])


def _code(text: str) -> str:
    """Names of commands, as Markdown writes them."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(results: Sequence[Result]) -> str:
    rows = [
        f"<tr><td>{escape(one.benchmark)}</td><td>{_code(one.name)}</td>"
        f'<td class="number">{escape(told(one.value, one.unit))}</td>'
        f'<td class="number">{escape(one.aim or "")}{"" if one.held is not False else " ✗"}</td>'
        f'<td class="number">{"" if one.cpu_us is None else f"{one.cpu_us:,.1f} µs"}</td></tr>'
        for one in results
    ]
    head = '<th>Benchmark</th><th>Measured</th><th class="number">Figure</th><th class="number">Target</th>'
    return (
        '<section>\n<h2 id="others">Figures that stand alone</h2>\n<div class="wide"><table>\n'
        f'<thead><tr>{head}<th class="number">CPU</th></tr></thead>\n'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>\n</section>"
    )
