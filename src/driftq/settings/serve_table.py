"""The settings that are also flags of `driftq serve`: the flag wins."""

from driftq.settings.spec import Choice, IntRange, SettingSpec, Text

_YES_NO = Choice(("true", "false"))
FILE = Text("file", "the path of a file")

HOST = SettingSpec(
    name="DRIFTQ_HOST",
    default="127.0.0.1",
    kind=Text("address", "an address or a host name"),
    meaning="the address that the server listens on",
)
PORT = SettingSpec(
    name="DRIFTQ_PORT",
    default=8080,
    kind=IntRange(0, 65_535),
    meaning="the port that the server listens on; 0 takes a free one",
)
PROFILE = SettingSpec(
    name="DRIFTQ_PROFILE",
    default="default",
    kind=Choice(("default", "v1-dev")),
    meaning="the named set of limits",
)
NO_WAL = SettingSpec(
    name="DRIFTQ_NO_WAL",
    default="false",
    kind=_YES_NO,
    meaning="the server keeps everything in memory and writes nothing to disk",
)
FSYNC = SettingSpec(
    name="DRIFTQ_FSYNC",
    default="always",
    kind=Choice(("always", "interval", "off")),
    meaning="the server syncs before every response, every 50 ms, or never explicitly",
)
ROUTER = SettingSpec(
    name="DRIFTQ_ROUTER",
    default=None,
    kind=Text("callable", "a callable like module:attr"),
    meaning="the callable that routes each produced message",
)
ROUTER_RULES = SettingSpec(
    name="DRIFTQ_ROUTER_RULES", default=None, kind=FILE, meaning="the file of routing rules, in TOML or JSON"
)
ROUTER_URL = SettingSpec(
    name="DRIFTQ_ROUTER_URL",
    default=None,
    kind=Text("url", "an address like http://127.0.0.1:9000/route"),
    meaning="the webhook that routes each produced message",
)
ROUTER_TOPIC = SettingSpec(
    name="DRIFTQ_ROUTER_TOPIC",
    default=None,
    unset="every topic",
    kind=Text("names", "names of topics with commas between them"),
    meaning="the topics that the webhook is called for",
)
ROUTER_TIMEOUT_MS = SettingSpec(
    name="DRIFTQ_ROUTER_TIMEOUT_MS",
    default=1000,
    kind=IntRange(1, 2**31 - 1, "ms"),
    meaning="after this time without a decision the message is stored unrouted",
)
INSECURE = SettingSpec(
    name="DRIFTQ_INSECURE",
    default="false",
    kind=_YES_NO,
    meaning="the server accepts connections from other machines without keys",
)
TLS_CERT = SettingSpec(
    name="DRIFTQ_TLS_CERT",
    default=None,
    kind=FILE,
    meaning="the server's certificate with its chain, in PEM; with it the server speaks HTTPS only",
)
TLS_KEY = SettingSpec(
    name="DRIFTQ_TLS_KEY",
    default=None,
    unset="in the file of the certificate",
    kind=FILE,
    meaning="the private key of that certificate",
)
TLS_CLIENT_CA = SettingSpec(
    name="DRIFTQ_TLS_CLIENT_CA",
    default=None,
    unset="clients need no certificate",
    kind=FILE,
    meaning="the certificates that a client's certificate must be signed by",
)
LOG_LEVEL = SettingSpec(
    name="DRIFTQ_LOG_LEVEL",
    default="info",
    kind=Choice(("debug", "info", "warning", "error")),
    meaning="the least level that servers, workers and pipelines log",
)
LOG_FORMAT = SettingSpec(
    name="DRIFTQ_LOG_FORMAT",
    default="text",
    kind=Choice(("text", "json")),
    meaning="how servers, workers and pipelines write their log: as text, or as one JSON object a line",
)

SERVE_SETTINGS: tuple[SettingSpec, ...] = (
    HOST,
    PORT,
    PROFILE,
    NO_WAL,
    FSYNC,
    ROUTER,
    ROUTER_RULES,
    ROUTER_URL,
    ROUTER_TOPIC,
    ROUTER_TIMEOUT_MS,
    INSECURE,
    TLS_CERT,
    TLS_KEY,
    TLS_CLIENT_CA,
    LOG_LEVEL,
    LOG_FORMAT,
)
