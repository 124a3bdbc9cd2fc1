"""Addresses and servers that cannot be used: one sentence each, and no password in it."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks.terminusdb import TerminusSink
from tests.conformance.terminusdb.conftest import change
from tests.services_terminusdb import TerminusProcess, create_database, drop_database

SECRET = "hush-hush"


@pytest.mark.parametrize(
    "url",
    [
        f"terminusdb://admin:{SECRET}@host/admin/db",
        f"terminusdb+http://admin:{SECRET}@host:6363/admin",
        f"terminusdb+http://admin:{SECRET}@host:6363/admin/db/more",
        f"terminusdb+http://admin:{SECRET}@host:port/admin/db",
        f"terminusdb+http://admin:{SECRET}@/admin/db",
        f"terminusdb+http://admin:{SECRET}@host/admin/db?branch=main",
    ],
)
def test_a_malformed_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidArgument, match="write the address as terminusdb") as refused:
        TerminusSink.from_url(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("options", [{"batch_documents": 0}, {"batch_documents": 1_001}, {"timeout_s": 30.0}])
def test_options_have_bounds(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        TerminusSink("terminusdb+http://host/admin/db", **options)


def test_a_sink_is_plain_values_and_shows_no_password() -> None:
    sink = TerminusSink(f"terminusdb+https://admin:{SECRET}@host/admin/db")
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert SECRET not in repr(sink)


@pytest.fixture(scope="module")
def old_server() -> Iterator[TerminusProcess]:
    server = TerminusProcess("--version", "11.1.14")
    yield server
    server.remove()


def problem(url: str) -> str:
    with pytest.raises(InvalidArgument) as refused:
        TerminusSink(url).open_store("orders")
    text = str(refused.value)
    assert "root" not in text
    assert SECRET not in text
    assert "\n" not in text
    return text


@pytest.mark.clause("V7")
def test_what_is_wrong_is_said_in_a_sentence(
    private_terminus: TerminusProcess, old_server: TerminusProcess
) -> None:
    url = create_database(private_terminus.url)
    assert "refuses the password of user 'admin': check both" in problem(url.replace("root", SECRET))
    assert "takes this address for 'anonymous'" in problem(url.replace("admin:root@", ""))
    assert "has no database admin/none: create it first" in problem(f"{private_terminus.url}/none")
    assert "TerminusDB 12 or newer is needed" in problem(f"{old_server.url}/orders")
    TerminusSink(url).open_store("orders")


def test_a_server_that_is_down_is_unavailable_and_one_of_another_kind_is_refused(
    private_terminus: TerminusProcess,
) -> None:
    private_terminus.kill()
    with pytest.raises(ReadModelUnavailable, match="connection refused") as failed:
        TerminusSink(f"{private_terminus.url}/orders").open_store("orders")
    assert "root" not in str(failed.value)


def test_a_database_that_vanishes_is_an_outage(private_terminus: TerminusProcess) -> None:
    """The operator may restore it: nothing is spent, and no document becomes a dead letter."""
    url = create_database(private_terminus.url)
    store = TerminusSink(url).open_store("orders")
    store.create_place("f" * 32)
    drop_database(url)
    with pytest.raises(ReadModelUnavailable, match="UnknownDatabase"):
        store.put("f" * 32, [change(1)])
