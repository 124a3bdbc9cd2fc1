"""From the environment to one frozen object; no other module of DriftQ reads the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from driftq.model.options.credentials import Credentials
from driftq.model.options.events import EventOptions
from driftq.model.options.jobs import JobOptions
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.limits import Limits
from driftq.model.options.pipeline import PipelineOptions, PublisherSettings, RegistrySettings
from driftq.model.options.serving import ServeSettings
from driftq.settings import event_table, job_table, serve_table, table
from driftq.settings.event_settings import (
    contradictions,
    event_options,
    publisher_settings,
    registry_settings,
)
from driftq.settings.kafka_settings import client_option_specs, kafka_options, option_problems
from driftq.settings.profile import DEFAULT, PROFILES, Profile
from driftq.settings.serve_settings import serve_settings
from driftq.settings.spec import Problem, SettingSpec, SettingsRefused, UnknownName, Value

_RESEMBLANCE = 0.65
"""Of two names without their prefix: less than is equal in PORT and PROT, or in CERT and CERTIFICATE."""


class SettingSource(StrEnum):
    """Where a value came from; the later one wins."""

    DEFAULT = "default"
    PROFILE = "profile"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its current value."""

    spec: SettingSpec
    value: Value | None
    source: SettingSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, validated."""

    profile: str
    limits: Limits
    jobs: JobOptions
    retention_ms: int
    segment_bytes: int
    free_bytes_min: int
    url: str
    data: str
    allowed_hosts: tuple[str, ...]
    commit: str
    credentials: Credentials
    """Of clients, commands and jobs."""
    serving: ServeSettings
    """A flag of `driftq serve` wins over its field here."""
    events: EventOptions
    registry: RegistrySettings
    publisher: PublisherSettings
    transport: str
    kafka: KafkaOptions
    sinks: tuple[str, ...]
    in_force: tuple[Setting, ...]
    """All settings in the order of the table, then the options of Kafka's clients."""

    def pipeline(
        self, *, url: str | None = None, data: str | None = None, sinks: Iterable[str] = ()
    ) -> PipelineOptions:
        """The options of the pipeline's jobs, for this server and folder, and for these sinks if any."""
        folder = self.data if data is None else data
        return PipelineOptions(
            url=self.url if url is None else url,
            credentials=self.credentials,
            data=folder,
            events=self.events.within(folder),
            registry=self.registry,
            publisher=self.publisher,
            transport=self.transport,
            kafka=self.kafka,
            sinks=tuple(sinks),
            default_sinks=self.sinks,
        )


def load_settings(profile: Profile | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read every setting; SettingsRefused names all that are invalid. None takes DRIFTQ_PROFILE."""
    if profile is None:
        profile = PROFILES.get(environ.get(serve_table.PROFILE.name, ""), DEFAULT)  # Checked with the others.
    passed = client_option_specs(environ)
    in_force = _read((*table.SETTINGS, *passed), profile, environ, unknown=_unknown_names(environ))
    values = {setting.spec.name: setting.value for setting in in_force}
    if problems := (
        *contradictions(values),
        *job_table.job_problems(values),
        *option_problems(passed, values),
    ):
        raise SettingsRefused(problems)
    return Settings(
        profile=profile.name,
        limits=Limits(
            in_flight_max=_number(values, table.IN_FLIGHT_MAX),
            ack_timeout_ms=_number(values, table.ACK_TIMEOUT_MS),
            partition_messages_max=_number(values, table.PARTITION_MESSAGES_MAX),
            partition_bytes_max=_number(values, table.PARTITION_BYTES_MAX),
            idempotency_ttl_ms=_number(values, table.IDEMPOTENCY_TTL_MS),
            idempotency_keys_max=_number(values, table.IDEMPOTENCY_KEYS_MAX),
            retention_ms=_number(values, table.RETENTION_MS),
            refuse_mismatch=values[table.MISMATCH_MODE.name] == "error",
            count_unread=profile.count_unread,
            jobs_kept_ms=_number(values, job_table.KEPT_MS),
        ),
        jobs=job_table.job_options(values),
        retention_ms=_number(values, table.RETENTION_MS),
        segment_bytes=_number(values, table.SEGMENT_BYTES),
        free_bytes_min=_number(values, table.FREE_BYTES_MIN),
        url=str(values[table.URL.name]),
        data=str(values[table.DATA.name]),
        allowed_hosts=_names(values, table.ALLOWED_HOSTS),
        commit=str(values[table.COMMIT.name]),
        credentials=load_credentials(environ=environ),
        serving=serve_settings(values, data=str(values[table.DATA.name])),
        events=event_options(values),
        registry=registry_settings(values),
        publisher=publisher_settings(values),
        transport=str(values[event_table.TRANSPORT.name]),
        kafka=kafka_options(passed, values),
        sinks=tuple(str(values[event_table.SINKS.name] or "").split()),
        in_force=in_force,
    )


def load_url(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The server's address for a client command, whatever the broker's settings are; or SettingsRefused."""
    if given is not None:
        try:
            return str(table.URL.kind.read(given))
        except ValueError as must_be:
            raise SettingsRefused((Problem("--url", given, str(must_be)),)) from None
    return str(_read((table.URL,), DEFAULT, environ)[0].value)


def load_transport(environ: Mapping[str, str] = os.environ) -> str:
    """What carries events to workers and projections, whatever the other settings are."""
    return str(_read((event_table.TRANSPORT,), DEFAULT, environ)[0].value)


def load_data(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The folder shared with the server, whatever the broker's settings are."""
    return given if given is not None else str(_read((table.DATA,), DEFAULT, environ)[0].value)


def load_keys_file(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The file of API keys, whatever the other settings are; None when none is named."""
    value = given if given is not None else _read((event_table.API_KEYS_FILE,), DEFAULT, environ)[0].value
    return None if value is None else str(value)


def load_credentials(
    *,
    api_key: str | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Credentials:
    """A client's credentials, whatever the other settings are; what is given wins over the environment.

    A certificate that is given is not used with the key of another one from the environment.
    """
    specs = (table.API_KEY, table.CA_FILE, table.CLIENT_CERT, table.CLIENT_KEY)
    found = [setting.value for setting in _read(specs, DEFAULT, environ)]
    key, ca, cert, cert_key = (None if value is None else str(value) for value in found)
    return Credentials(
        api_key=key if api_key is None else api_key,
        ca_file=ca if ca_file is None else ca_file,
        client_cert=cert if client_cert is None else client_cert,
        client_key=cert_key if client_cert is None and client_key is None else client_key,
    )


def load_log(
    *, level: str | None = None, form: str | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[str, str]:
    """The level and the format of the log, whatever the other settings are; what is given wins."""
    found = [
        setting.value for setting in _read((serve_table.LOG_LEVEL, serve_table.LOG_FORMAT), DEFAULT, environ)
    ]
    return level or str(found[0]), form or str(found[1])


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """Java's home from the environment, if set; not a setting of DriftQ."""
    return environ.get("JAVA_HOME") or None


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where fetched files stay that can be fetched again; not a setting of DriftQ."""
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "driftq"


def uses_spark_connect(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether Spark would open a session of Spark Connect here, or has one open."""
    return "SPARK_REMOTE" in environ or "SPARK_CONNECT_MODE_ENABLED" in environ


def wants_traces(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's own variables ask for traces; they are not settings of DriftQ."""
    if (
        environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return False
    names = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environ.get(name) for name in names)


def prefer_python(path: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Let Spark's workers run this Python, unless the environment names another."""
    environ.setdefault("PYSPARK_PYTHON", path)


def _read(
    specs: Iterable[SettingSpec],
    profile: Profile,
    environ: Mapping[str, str],
    *,
    unknown: tuple[UnknownName, ...] = (),
) -> tuple[Setting, ...]:
    found: list[Setting] = []
    problems: list[Problem | UnknownName] = [*unknown]
    for spec in specs:
        given = environ.get(spec.name)
        if given is not None:
            try:
                found.append(Setting(spec, spec.kind.read(given), SettingSource.ENVIRONMENT))
            except ValueError as must_be:
                shown = "***" if spec.secret and given else given
                problems.append(Problem(spec.name, shown, str(must_be)))
        elif spec.name in profile.values:
            found.append(Setting(spec, profile.values[spec.name], SettingSource.PROFILE))
        else:
            found.append(Setting(spec, spec.default, SettingSource.DEFAULT))
    if problems:
        raise SettingsRefused(tuple(problems))
    return tuple(found)


def _unknown_names(environ: Mapping[str, str]) -> tuple[UnknownName, ...]:
    """Names with a prefix of settings that are none: a typo must not go unnoticed."""
    known = {spec.name for spec in table.SETTINGS}
    found: list[UnknownName] = []
    for name in sorted(set(environ) - known):
        if name.startswith(table.OWNED_PREFIXES):
            found.append(UnknownName(name, next(iter(difflib.get_close_matches(name, known, n=1)), None)))
        elif not name.startswith(table.NOT_OURS) and (nearest := _nearest(name, known)):
            found.append(UnknownName(name, nearest))
    return tuple(found)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The setting of the same family whose name resembles this one, if any does."""
    for family in table.FAMILIES:
        if name.startswith(family):
            rests = [one.removeprefix(family) for one in known if one.startswith(family)]
            close = difflib.get_close_matches(name.removeprefix(family), rests, n=1, cutoff=_RESEMBLANCE)
            return family + close[0] if close else None
    return None


def _names(values: Mapping[str, Value | None], spec: SettingSpec) -> tuple[str, ...]:
    value = values[spec.name]
    return () if value is None else tuple(str(value).split(","))


def _number(values: Mapping[str, Value | None], spec: SettingSpec) -> int:
    value = values[spec.name]
    assert value is not None  # Only settings with a default are read here.
    return int(value)
