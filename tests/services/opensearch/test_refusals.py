"""A target that cannot be used is refused when it is opened, with one sentence and without a secret."""

from __future__ import annotations

import importlib.util
import socket
from importlib.machinery import ModuleSpec

import pytest

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks.opensearch import OpenSearchSink
from tests.services.opensearch.answering import answering

SECRET = "hush-1234"


def _refused(url: str, **options: str) -> str:
    sink = OpenSearchSink(url, **options)  # type: ignore[arg-type]
    assert SECRET not in repr(sink)
    with pytest.raises(InvalidArgument) as refused:
        sink.open_store("orders")
    assert SECRET not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


@pytest.mark.clause("V5")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:9200",
        f"redis://user:{SECRET}@h:1/0",
        f"http://user:{SECRET}@h:port/",
        "opensearch+http:///x",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    assert "name a search server like opensearch+http://user:password@host:9200/PREFIX" in _refused(url)


def test_names_that_no_index_can_have_are_refused() -> None:
    for prefix in ("Orders", "-a", "a--b", "a-", "a b", "a/b", "é"):
        assert repr(prefix) in _refused("http://127.0.0.1:1", prefix=prefix)
    assert "name one of them" in _refused("http://127.0.0.1:1/one", prefix="another")
    assert "projection" in _refused_name("a-b")


def _refused_name(projection: str) -> str:
    with pytest.raises(InvalidArgument) as refused:
        OpenSearchSink("http://127.0.0.1:1").open_store(projection)
    return str(refused.value)


@pytest.mark.clause("V5")
def test_a_wrong_password_is_refused_and_not_repeated() -> None:
    with answering(401, {"error": "Unauthorized", "status": 401}) as server:
        refused = _refused(f"opensearch+http://kim:{SECRET}@{server}/shop")
    assert refused == f"url: http://{server} refuses this user: check user and password"


@pytest.mark.clause("V5")
@pytest.mark.parametrize(
    ("version", "name"),
    [
        ({"number": "7.17.9", "build_flavor": "default"}, "Elasticsearch 7.17.9"),
        ({"number": "1.3.20", "distribution": "opensearch"}, "OpenSearch 1.3.20"),
    ],
)
def test_a_server_that_is_too_old_is_refused(version: dict[str, str], name: str) -> None:
    with answering(200, {"version": version}) as server:
        refused = _refused(f"http://{server}")
    assert refused == f"url: http://{server} is {name}: use OpenSearch 2 or Elasticsearch 8, or a newer one"


def test_another_kind_of_server_is_refused() -> None:
    for status, body in ((200, {"hello": "world"}), (404, "nothing here"), (200, [])):
        with answering(status, body) as server:
            assert "is no OpenSearch and no Elasticsearch" in _refused(f"http://{server}")


def test_certificates_that_are_not_there_are_refused() -> None:
    assert "there is no file 'missing.pem'" in _refused("https://127.0.0.1:1", ca_file="missing.pem")


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "opensearchpy" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert "pip install 'driftq[opensearch]'" in _refused("http://127.0.0.1:1")


@pytest.mark.clause("V5", "V3", "V3c")
def test_a_server_that_is_away_or_starting_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound, and nobody listens.
        sink = OpenSearchSink(f"http://kim:{SECRET}@127.0.0.1:{taken.getsockname()[1]}", timeout_s=2)
        with pytest.raises(ReadModelUnavailable) as away:
            sink.open_store("orders")
    assert SECRET not in str(away.value)
    starting = {"error": {"type": "cluster_manager_not_discovered_exception", "reason": None}, "status": 503}
    with answering(503, starting) as server, pytest.raises(ReadModelUnavailable, match="not_discovered"):
        OpenSearchSink(f"http://{server}").open_store("orders")
