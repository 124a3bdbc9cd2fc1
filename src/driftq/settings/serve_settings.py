"""The settings of a server, before its flags are applied."""

from collections.abc import Mapping

from driftq.model.options.serving import ServeSettings
from driftq.settings import event_table
from driftq.settings import serve_table as table
from driftq.settings.spec import SettingSpec, Value


def serve_settings(values: Mapping[str, Value | None], *, data: str) -> ServeSettings:
    def text(spec: SettingSpec) -> str | None:
        value = values[spec.name]
        return None if value is None else str(value)

    topics = text(table.ROUTER_TOPIC)
    return ServeSettings(
        host=str(values[table.HOST.name]),
        port=int(values[table.PORT.name] or 0),
        data=data,
        no_wal=values[table.NO_WAL.name] == "true",
        fsync=str(values[table.FSYNC.name]),
        router=text(table.ROUTER),
        router_rules=text(table.ROUTER_RULES),
        router_url=text(table.ROUTER_URL),
        router_topics=() if topics is None else tuple(name.strip() for name in topics.split(",")),
        router_timeout_ms=int(values[table.ROUTER_TIMEOUT_MS.name] or 1),
        api_keys_file=text(event_table.API_KEYS_FILE),
        insecure=values[table.INSECURE.name] == "true",
        tls_cert=text(table.TLS_CERT),
        tls_key=text(table.TLS_KEY),
        tls_client_ca=text(table.TLS_CLIENT_CA),
        log_level=str(values[table.LOG_LEVEL.name]),
        log_format=str(values[table.LOG_FORMAT.name]),
    )
