"""The definition of a setting, and the texts that each kind of setting accepts."""

import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from driftq.settings.address import without_password

Value = int | str

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_API_KEY = re.compile(r"[!-~]{1,4096}")
_TEXT_MAX = 4096


class Kind(Protocol):
    """A set of values with a text for each."""

    @property
    def name(self) -> str:
        """One word for tables."""

    @property
    def allowed(self) -> str:
        """Completes the sentence "it must be …"."""

    def read(self, text: str) -> Value:
        """The value of the text; ValueError when it is invalid."""


@dataclass(frozen=True, slots=True)
class IntRange:
    """An integer in a range, both ends included."""

    low: int
    high: int
    unit: str = ""

    @property
    def name(self) -> str:
        return self.unit or "number"

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}{' ' + self.unit if self.unit else ''}"

    def read(self, text: str) -> int:
        if not _WHOLE.fullmatch(text) or not self.low <= int(text) <= self.high:
            raise ValueError(self.allowed)
        return int(text)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def name(self) -> str:
        return "word"

    @property
    def allowed(self) -> str:
        return " or ".join(self.options)

    def read(self, text: str) -> str:
        if text not in self.options:
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class Text:
    """Anything printable on one line that is not empty."""

    name: str
    allowed: str = "a text on one line, not empty"

    def read(self, text: str) -> str:
        if not text.strip() or len(text) > _TEXT_MAX or not text.isprintable():
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class ApiKeyText:
    """The text of an API key; whether it is valid only the server knows."""

    name: str = "key"
    allowed: str = "a key like dq_<id>_<secret>"

    def read(self, text: str) -> str:
        if not _API_KEY.fullmatch(text):
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name that SQL accepts without quotes."""

    name: str = "name"
    allowed: str = "a name of at most 63 letters, digits and _, not beginning with a digit"

    def read(self, text: str) -> str:
        if not _IDENTIFIER.fullmatch(text):
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """The address of a server, without query, fragment or password."""

    name: str = "url"
    allowed: str = "an address like http://127.0.0.1:8080"

    def read(self, text: str) -> str:
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError(self.allowed) from None
        sound = parts.scheme in ("http", "https") and parts.hostname and text.isprintable() and port != 0
        if not sound or parts.query or parts.fragment or parts.username is not None or " " in text:
            raise ValueError(self.allowed)
        return text.rstrip("/")


@dataclass(frozen=True, slots=True)
class HostNames:
    """Names of hosts with commas between them, without ports."""

    name: str = "names"
    allowed: str = "names of hosts with commas between them, like queue.example.org,queue"

    def read(self, text: str) -> str:
        names = [name.strip() for name in text.split(",")]
        if len(text) > _TEXT_MAX or not all(map(_HOST_NAME.fullmatch, names)):
            raise ValueError(self.allowed)
        return ",".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """One environment variable: the values it accepts, its default, its meaning."""

    name: str
    default: Value | None
    kind: Kind
    meaning: str
    unset: str = "not set"
    """The behaviour without a value, in words, where `default` is None."""
    secret: bool = False
    """The value is never shown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One environment variable with an invalid value."""

    name: str
    given: str
    must_be: str

    def __str__(self) -> str:
        return f"{self.name} is {without_password(self.given)!r}; it must be {self.must_be}"


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name with our prefix that no setting has."""

    name: str
    nearest: str | None

    def __str__(self) -> str:
        hint = f"did you mean {self.nearest}?" if self.nearest else "`driftq config` lists the valid names"
        return f"{self.name} is not a setting; {hint}"


class SettingsRefused(Exception):
    """The environment has invalid settings; nothing was started."""

    def __init__(self, problems: tuple[Problem | UnknownName, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems
