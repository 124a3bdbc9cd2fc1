"""docs/reference/settings.md: every environment variable, from the table that reads them.

Three facts are found by trying: which part of the settings a variable changes, whether any code reads that
part, and which values stop a command that would use them.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftq.settings import PROFILES, SETTINGS, Settings, SettingSpec, SettingsRefused, load_settings
from scripts.reference import settings_readers
from scripts.reference.markdown import cell, code, head, joined, table
from scripts.reference.settings_trial import Refusal, environments, refusals, samples

INTRO = """\
A command reads its settings from the environment when it starts. A value outside its range, an
unknown name that begins with `DRIFTQ_BROKER_` or `DRIFTQ_IDEMPOTENCY_`, or another name with a prefix
of the tables below that resembles a setting, stops the command with a message that names every
problem. [`driftq config`](cli.md#driftq-config) lists every setting with
its value and where the value comes from. Options of a command are on the page of the [command
line](cli.md). Every flag of `driftq serve` has a variable, `DRIFTQ_` and its name; the flag wins over the
variable, and the variable over the default. `--url URL` overrides `DRIFTQ_URL`.

Any other `DRIFTQ_KAFKA_<OPTION>` is an option of Kafka's client, librdkafka, with `_` for each dot: one
named after `SASL_USERNAME` sets `sasl.username`. Values of passwords, keys and tokens are never shown."""
COMMANDS = """\
*Read by* names the commands that use the value; `driftq.open` reads what `serve` reads. `DIR` is
the server's folder."""
PROFILE_TEXT = """\
A profile is a named set of limits, chosen with `driftq serve --profile NAME`. An environment
variable overrides the profile. `default` is for work; `v1-dev` has the small limits of the first
version of the protocol, for tests that want to reach them."""
REFUSED = """\
These values are in range and still stop the command, because no version of the code behind them
exists yet or because another setting contradicts them. The other settings have their defaults here."""
SECTIONS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("Broker", ("DRIFTQ_BROKER_", "DRIFTQ_IDEMPOTENCY_")),
    ("Server and commands", ("DRIFTQ_",)),
    ("Event store", ("EVENT_STORE_",)),
    ("Registry and workers", ("ENABLE_", "PROCESSED_", "INSTANCE_", "ONTOLOGY_", "PROJECTION_")),
    ("Publisher", ("EVENT_PUBLISHER_",)),
)
SOURCE = Path(__file__).resolve().parents[2] / "src/driftq"


def page() -> str:
    refused = list(refusals())
    readers = settings_readers.by_field(SOURCE)
    parts = [*head("Settings", "src/driftq/settings"), INTRO, COMMANDS]
    listed: set[str] = set()
    for title, prefixes in SECTIONS:
        specs = [spec for spec in SETTINGS if spec.name.startswith(prefixes) and spec.name not in listed]
        listed.update(spec.name for spec in specs)
        rows = [
            (
                code(spec.name),
                _default(spec),
                spec.kind.allowed,
                _read_by(spec, readers),
                _meaning(spec, refused),
            )
            for spec in specs
        ]
        parts += [f"## {title}", table(("Variable", "Default", "Value", "Read by", "Meaning"), rows)]
    assert listed == {spec.name for spec in SETTINGS}, "a section for every setting"
    refused_rows = [(_assignments(one.environ), code(f"driftq {one.command}"), one.text) for one in refused]
    parts += [
        "## Values that stop a command",
        REFUSED,
        table(("Setting", "Command", "It says"), refused_rows),
    ]
    parts += ["## Profiles", PROFILE_TEXT, _profiles()]
    return joined(parts)


def _default(spec: SettingSpec) -> str:
    return code(spec.default) if spec.default is not None else cell(spec.unset)


def _assignments(environ: Mapping[str, str]) -> str:
    return code(" ".join(f"{name}={value}" for name, value in environ.items()))


def _meaning(spec: SettingSpec, refused: Sequence[Refusal]) -> str:
    """With a warning where no value but the default is accepted, or where no code reads the value."""
    values = samples(spec)
    stopped = [one for one in refused if one.name == spec.name]
    if values and {one.value for one in stopped} >= set(values):
        return f"{spec.meaning}. **Not available yet**: a value stops `driftq {stopped[-1].command}`."
    if not settings_readers.is_used(_field(spec).split(".")[-1], SOURCE):
        return f"{spec.meaning}. **No effect yet**: the value is checked and nothing reads it."
    return spec.meaning


def _read_by(spec: SettingSpec, readers: Mapping[str, Sequence[str]]) -> str:
    field = _field(spec)
    commands = {*readers.get(field, ()), *readers.get(field.split(".")[0], ())}
    return ", ".join(map(code, sorted(commands)))


def _field(spec: SettingSpec) -> str:
    """The field of the settings object, written with dots, that this variable sets."""
    for value in samples(spec):
        for environ in environments(spec, value):
            base = {name: text for name, text in environ.items() if name != spec.name}
            try:
                changed = load_settings(environ=environ)
            except SettingsRefused:
                continue
            if different := list(_differences(load_settings(environ=base), changed)):
                return different[0]
    raise LookupError(f"{spec.name} changes nothing in the settings object")


def _differences(one: Any, other: Any, prefix: str = "") -> Iterator[str]:
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "in_force" or mine == theirs:
            continue
        if dataclasses.is_dataclass(mine):
            yield from _differences(mine, theirs, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def _profiles() -> str:
    settings: dict[str, Settings] = {
        name: load_settings(profile, environ={}) for name, profile in PROFILES.items()
    }
    rows: list[tuple[str, ...]] = []
    for spec in SETTINGS:
        if any(spec.name in profile.values for profile in PROFILES.values()):
            values = [
                next(one.value for one in found.in_force if one.spec.name == spec.name)
                for found in settings.values()
            ]
            rows.append((code(spec.name), *(f"{value:,} {spec.kind.name}" for value in values)))
    unread = ["count" if found.limits.count_unread else "do not count" for found in settings.values()]
    rows.append(("Messages of a topic without a group or reader", *unread))
    return table(("Limit", *map(code, settings)), rows)
