"""Requests to a search server with opensearch-py's connection, and its failures as our errors.

The client's `Transport` is left out on purpose: it repeats requests on its own, decodes every answer, and
documents are read here without decoding the state in them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import ssl
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks.opensearch.address import SearchAddress

if TYPE_CHECKING:
    from opensearchpy import Urllib3HttpConnection

HOW_TO_GET_CLIENT = "pip install 'driftq[opensearch]'"
OPENSEARCH, ELASTICSEARCH = "OpenSearch", "Elasticsearch"
_OLDEST = {OPENSEARCH: 2, ELASTICSEARCH: 8}
_EVERY_FAILURE = range(300, 600)
_BLOCKED = "cluster_block_exception"
_REASON_CHARACTERS = 1_000
"""It becomes part of dead letters."""
_MAJOR = re.compile(r"(\d+)\.\d+")


class SearchReply(NamedTuple):
    """A status, and JSON that is not decoded."""

    status: int
    text: str
    product: str = ""
    """As a header names it; only Elasticsearch has one."""


class SearchProblem(NamedTuple):
    """What a server says about a request, or about one part of it."""

    type: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.reason}" if self.reason else self.type

    @classmethod
    def of(cls, error: Any) -> SearchProblem:
        """Of the field `error` in an answer, which is an object or a text."""
        if not isinstance(error, dict):
            return cls(reason=str(error or "")[:_REASON_CHARACTERS])
        cause = error.get("caused_by")
        reason = str(error.get("reason") or "")
        if isinstance(cause, dict) and cause.get("reason"):
            reason = f"{reason} ({cause['reason']})"
        return cls(str(error.get("type") or ""), reason[:_REASON_CHARACTERS])


class SearchConnection:
    """One connection to one server."""

    def __init__(self, address: SearchAddress, *, timeout_s: float, ca_file: str | None) -> None:
        if importlib.util.find_spec("opensearchpy") is None:
            raise InvalidArgument("sink", f"OpenSearch needs opensearch-py: {HOW_TO_GET_CLIENT}")
        if ca_file is not None and not os.path.exists(ca_file):
            raise InvalidArgument("ca_file", f"there is no file {ca_file!r}")
        self.address = address
        self._connection = _open(address, timeout_s=timeout_s, ca_file=ca_file)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str | int] | None = None,
        accept: Collection[int] = (),
        content_type: str = "application/json",
    ) -> SearchReply:
        """One request. A failure that is not in `accept` is raised.

        Raises ReadModelUnavailable where the server is away or overloaded, or has no such index, and
        InvalidArgument where it refuses the user or the request.
        """
        reply = self._send(method, path, params, body, content_type)
        if reply.status < 300 or reply.status in accept:
            return reply
        raise self.failure(reply.status, problem_of(reply))

    def failure(self, status: int, problem: SearchProblem) -> Exception:
        """The error for a failed request."""
        if status == 401:
            return InvalidArgument("url", f"{self.address} refuses this user: check user and password")
        if status == 403 and problem.type != _BLOCKED:
            return InvalidArgument(
                "url", f"{self.address} denies this user a right that it needs ({problem})"
            )
        if status == 400:
            return InvalidArgument("sink", f"{self.address} refuses the request ({problem})")
        return ReadModelUnavailable(str(self.address), cause=f"{status} {problem}".strip())

    def require_supported(self) -> None:
        """Raises InvalidArgument unless this is a server whose promises are known."""
        product, number = self._product()
        major = _MAJOR.match(number)
        if major is None:
            raise InvalidArgument(
                "url", f"{self.address} is no OpenSearch and no Elasticsearch: check the address"
            )
        if int(major[1]) < _OLDEST[product]:
            raise InvalidArgument(
                "url",
                f"{self.address} is {product} {number}: use {OPENSEARCH} {_OLDEST[OPENSEARCH]} or "
                f"{ELASTICSEARCH} {_OLDEST[ELASTICSEARCH]}, or a newer one",
            )

    def _product(self) -> tuple[str, str]:
        """What it is, and its version; an empty one where the server does not say."""
        reply = self._send("GET", "/", None, None, "application/json")
        if reply.status in (401, 403, 429) or reply.status >= 500:
            raise self.failure(reply.status, problem_of(reply))
        found = _decoded(reply.text).get("version")
        if isinstance(found, dict):
            product = OPENSEARCH if found.get("distribution") == "opensearch" else ELASTICSEARCH
            return product, str(found.get("number", ""))
        if reply.product != ELASTICSEARCH:
            return OPENSEARCH, ""
        # Elasticsearch can be built without the module that answers at its root.
        nodes = _decoded(self.call("GET", "/_nodes/_local").text)["nodes"]
        return ELASTICSEARCH, min(str(node["version"]) for node in nodes.values())

    def close(self) -> None:
        self._connection.close()

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None,
        body: bytes | None,
        content_type: str,
    ) -> SearchReply:
        from opensearchpy.exceptions import ConnectionError as Unreachable

        try:
            status, headers, text = self._connection.perform_request(
                method,
                path,
                params=params,
                body=body,
                ignore=_EVERY_FAILURE,
                headers={"content-type": content_type},
            )
        except Unreachable as error:
            if _is_untrusted(error):
                raise InvalidArgument(
                    "url",
                    f"the certificate of {self.address} is not trusted: name its authority with ca_file",
                ) from error
            raise ReadModelUnavailable(str(self.address), cause=_first_line(error.error)) from error
        return SearchReply(status, text, headers.get("x-elastic-product", ""))


def _open(address: SearchAddress, *, timeout_s: float, ca_file: str | None) -> Urllib3HttpConnection:
    from opensearchpy import Urllib3HttpConnection

    class QuietConnection(Urllib3HttpConnection):
        """Logs no failure: it is raised, and the caller says what it means."""

        def log_request_fail(self, *_: Any, **__: Any) -> None:
            pass

    secure: dict[str, Any] = {"use_ssl": True, "ca_certs": ca_file} if address.scheme == "https" else {}
    timeout: Any = timeout_s  # The client's signature has a whole number; a fraction works.
    user = None if address.user is None else (address.user, address.password or "")
    return QuietConnection(address.host, address.port, http_auth=user, timeout=timeout, **secure)


def problem_of(reply: SearchReply) -> SearchProblem:
    decoded = _decoded(reply.text)
    return SearchProblem.of(decoded.get("error", reply.text[:200]))


def _decoded(text: str) -> dict[str, Any]:
    """Empty where it is no JSON object."""
    try:
        decoded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _is_untrusted(error: BaseException) -> bool:
    """Whether the server's certificate is the reason; other failures of TLS may pass."""
    seen: object = error
    while isinstance(seen, BaseException):
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        inner = [each for each in (*seen.args, seen.__cause__) if isinstance(each, BaseException)]
        seen = inner[0] if inner else None
    return False


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["no answer"])[0]
