"""`driftq.HttpEffect`: a call of an HTTP API whose repeats count once, or whose outcome is asked for.

    api = driftq.HttpEffect("https://api.example.com/charges", honours_keys=True)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message, context):
        api.post(context, json={"amount": 5})

Every attempt for one event sends the same Idempotency-Key, made from the handler's name and the event's id,
and the fencing token of its claim. What the API does with the key decides which effect the handler declares:

    honours_keys=True     idempotent   a lost answer is asked for again, and the API answers as it did before
    honours_keys=False    unknown      a lost answer leaves the effect UNKNOWN, and an operator resolves it

No error, log line or `repr` contains a header, a path, a query or a body.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import enum
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from driftq.effects.http_call import AnswerLost, ApiAddress, HttpCaller, NotSent, RawAnswer
from driftq.effects.run import EffectRun, key_of
from driftq.errors import InvalidArgument
from driftq.registry import Effect
from driftq.registry.verdict import Reject, Retry, UnknownEffect

TIMEOUT_S = 10.0
RETRIED = frozenset({408, 425, 429, 503})
"""Answers that say that the API did nothing."""
_AFTER_MAX_S = 3600.0
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_METHODS = ("DELETE", "PATCH", "POST", "PUT")
_CALLS = "_driftq_http_calls"


class HttpAnswer(msgspec.Struct, frozen=True):
    """A successful answer."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    def json(self) -> Any:
        """The body, decoded; None where it is empty."""
        return msgspec.json.decode(self.body) if self.body else None


class Outcome(enum.Enum):
    """What an answer means for the effect."""

    DONE = enum.auto()
    RETRY = enum.auto()
    REFUSED = enum.auto()
    UNKNOWN = enum.auto()


class HttpEffect:
    """One API. Threads may share it; it opens connections when it is used."""

    def __init__(
        self,
        url: str,
        *,
        honours_keys: bool,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_on: Collection[int] = (),
        key_header: str = "Idempotency-Key",
        token_header: str = "Fencing-Token",  # noqa: S107 - the name of a header
        ca_file: str | None = None,
    ) -> None:
        """`retry_on` names further statuses that say that the API did nothing, such as 409 for a key in use.

        Raises InvalidArgument.
        """
        self._address = ApiAddress.parse(url)
        self._headers = _checked(headers or {})
        if timeout_s <= 0:
            raise InvalidArgument("timeout_s", "must be more than 0")
        for field, name in (("key_header", key_header), ("token_header", token_header)):
            if not _NAME.fullmatch(name):
                raise InvalidArgument(field, f"{name!r} cannot name a header")
        if wrong := [status for status in retry_on if not 400 <= status <= 599]:
            raise InvalidArgument("retry_on", f"{wrong[0]} is not between 400 and 599")
        self.honours_keys = honours_keys
        self._key_header = key_header
        self._token_header = token_header
        self._retry_on = RETRIED | set(retry_on)
        self._made_with = (url, honours_keys, dict(headers or {}), timeout_s, tuple(retry_on))
        self._named = (key_header, token_header, ca_file)
        self._caller = HttpCaller(self._address, timeout_s=timeout_s, ca_file=ca_file, reuses=honours_keys)

    def __repr__(self) -> str:
        return f"<HttpEffect {self._address.origin} honours_keys={self.honours_keys}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels to Spark's tasks without its connections."""
        return _made_again, (*self._made_with, *self._named)

    def post(self, context: EffectRun, **given: Any) -> HttpAnswer:
        """As `request` with the method POST."""
        return self.request("POST", context, **given)

    def put(self, context: EffectRun, **given: Any) -> HttpAnswer:
        """As `request` with the method PUT."""
        return self.request("PUT", context, **given)

    def request(
        self,
        method: str,
        context: EffectRun,
        *,
        json: Any = msgspec.UNSET,
        body: bytes | None = None,
        path: str = "",
        part: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Perform the effect once for this event; returns a successful answer.

        A handler that makes several different calls for one event names each of them by `part`. Raises Retry
        where trying again may help, Reject where it does not, and UnknownEffect where the API may have done
        it and would do it again. Before anything is sent, it raises Reject for a handler whose declaration
        does not fit, and InvalidArgument for arguments that cannot be sent.
        """
        if method not in _METHODS:
            raise InvalidArgument("method", f"must be one of {', '.join(_METHODS)}")
        if json is not msgspec.UNSET and body is not None:
            raise InvalidArgument("body", "and json are given: one of them can be sent")
        if problem := self.problem_of(context.handler, context.effect):
            raise Reject(problem)
        if context.lost:
            raise Retry("the lease is lost: another worker has the event")
        sent = {"User-Agent": "driftq"}
        content = body
        if json is not msgspec.UNSET:
            content = msgspec.json.encode(json)
            sent["Content-Type"] = "application/json"
        sent |= self._headers | _checked(headers or {})
        sent[self._key_header] = key_of(context, part)
        if context.token:
            sent[self._token_header] = str(context.token)
        target = self._address.below(path)
        _require_same(context, sent[self._key_header], (method, self._address, target, content))
        return self._answer(method, target, content, sent)

    def problem_of(self, handler: str, effect: Effect) -> str | None:
        """Why a handler with this declaration must not use it."""
        fitting = (Effect.IDEMPOTENT, Effect.UNKNOWN) if self.honours_keys else (Effect.UNKNOWN,)
        if effect in fitting:
            return None
        why = "honours keys" if self.honours_keys else "does not honour idempotency keys"
        return f"{handler} is declared {effect}, and {self._address.origin} {why}: declare it {fitting[0]}"

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._caller.close()

    def _answer(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        what = f"{method} {self._address.origin}"
        try:
            answer = self._caller.send(method, target, content, headers)
        except NotSent as away:
            raise Retry(f"{what}: not reachable ({away})") from None
        except AnswerLost as lost:
            if self.honours_keys:
                raise Retry(f"{what}: the answer was lost ({lost})") from None
            raise UnknownEffect(f"{what}: the answer was lost ({lost})") from None
        match outcome_of(answer.status, honours_keys=self.honours_keys, retry_on=self._retry_on):
            case Outcome.DONE:
                return HttpAnswer(answer.status, answer.headers, answer.body)
            case Outcome.RETRY:
                raise Retry(f"{what} answered {answer.status}", after=_after_s(answer))
            case Outcome.UNKNOWN:
                raise UnknownEffect(f"{what} answered {answer.status}")
            case Outcome.REFUSED:
                note = "; redirects are not followed" if answer.status < 400 else ""
                raise Reject(f"{what} answered {answer.status}{note}")


def outcome_of(status: int, *, honours_keys: bool, retry_on: Collection[int] = RETRIED) -> Outcome:
    """What a status means. An error of the server says nothing about what it did before."""
    if 200 <= status < 300:
        return Outcome.DONE
    if status in retry_on:
        return Outcome.RETRY
    if status >= 500:
        return Outcome.RETRY if honours_keys else Outcome.UNKNOWN
    return Outcome.REFUSED


def _after_s(answer: RawAnswer) -> float | None:
    """How long the API asks to wait: seconds or a date; at most an hour."""
    given = answer.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return min(float(given[:9]), _AFTER_MAX_S) or None
    try:
        at = email.utils.parsedate_to_datetime(given)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    left_s = (at - dt.datetime.now(dt.UTC)).total_seconds()
    return min(left_s, _AFTER_MAX_S) if left_s > 0 else None


def _require_same(context: EffectRun, key: str, call: tuple[Any, ...]) -> None:
    """Refuse a second, different call under one key: the API would take it for a repeat of the first."""
    calls: dict[str, Any] = context.__dict__.setdefault(_CALLS, {})
    if calls.setdefault(key, call) != call:
        raise InvalidArgument("part", "the handler makes two different calls: name each by part=…")


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Raises InvalidArgument, without the value in its text."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise InvalidArgument("headers", f"{name!r} cannot name a header")
        if not value.isascii() or not value.isprintable():
            raise InvalidArgument("headers", f"the value of {name} is not printable ASCII on one line")
    return dict(headers)


def _made_again(
    url: str,
    honours_keys: bool,
    headers: dict[str, str],
    timeout_s: float,
    retry_on: tuple[int, ...],
    key_header: str,
    token_header: str,
    ca_file: str | None,
) -> HttpEffect:
    return HttpEffect(
        url,
        honours_keys=honours_keys,
        headers=headers,
        timeout_s=timeout_s,
        retry_on=retry_on,
        key_header=key_header,
        token_header=token_header,
        ca_file=ca_file,
    )
