"""Sample values of a setting, and what the commands say to each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from unittest.mock import patch

from typer.testing import CliRunner

from driftq.errors import DriftQError
from driftq.settings import SETTINGS, SettingSpec, SettingsRefused, load_settings
from driftq.settings.spec import Choice, IntRange, Problem

_TEXTS = (
    "name",
    "sqlite:////tmp/events.db",
    "postgresql://user@host/name",
    "s3://bucket/prefix",
    "http://127.0.0.1:9000",
)


@dataclass(frozen=True)
class Refusal:
    """Settings in range that stop a command."""

    name: str
    value: str
    environ: Mapping[str, str]
    command: str
    text: str


def samples(spec: SettingSpec) -> list[str]:
    """Values that the setting accepts by itself and that are not its default."""
    kind = spec.kind
    if isinstance(kind, Choice):
        texts = list(kind.options)
    elif isinstance(kind, IntRange):
        texts = [str(kind.low), str(kind.high)]
    else:
        texts = [text for text in _TEXTS if _accepts(spec, text)][:1]
    return [text for text in texts if text != str(spec.default)]


def refusals() -> Iterator[Refusal]:
    """Every sample value that stops `driftq serve` or the publisher."""
    for spec in SETTINGS:
        for value in samples(spec):
            for environ in environments(spec, value):
                if text := _serve(environ):
                    yield Refusal(spec.name, value, environ, "serve", text)
                elif text := _publisher(environ):
                    yield Refusal(spec.name, value, environ, "pipeline run publisher", text)


def environments(spec: SettingSpec, value: str) -> Iterator[dict[str, str]]:
    """The value alone, and together with those settings that it cannot do without."""
    environ = {spec.name: value}
    yield environ
    by_name = {one.name: one for one in SETTINGS}
    try:
        load_settings(environ=environ)
    except SettingsRefused as refused:
        missing = [one.name for one in refused.problems if isinstance(one, Problem) and not one.given]
        if missing:
            yield environ | {name: samples(by_name[name])[0] for name in missing}


def _accepts(spec: SettingSpec, text: str) -> bool:
    try:
        spec.kind.read(text)
    except ValueError:
        return False
    return True


def _serve(environ: Mapping[str, str]) -> str:
    """The error of `driftq serve`, which goes no further than to the place where a server would start."""
    from driftq.cli.app import app

    others: dict[str, str | None] = dict.fromkeys((one.name for one in SETTINGS), None)  # None: not set.
    with patch("driftq.cli.serving.run_server", return_value=0):
        result = CliRunner().invoke(app, ["serve"], env=others | dict(environ))
    return result.stderr.strip().removeprefix("error: ") if result.exit_code else ""


def _publisher(environ: Mapping[str, str]) -> str:
    from driftq.pipeline.publisher.job import Publisher

    try:
        Publisher(load_settings(environ=environ).pipeline())
    except DriftQError as refused:
        return str(refused)
    return ""
