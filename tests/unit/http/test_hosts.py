"""Whose page asks, and under which name: what the three headers of a request decide."""

import pytest

from driftq.errors import HostRefused, PageRefused, PermissionDenied
from driftq.http.wire.hosts import HostRule

RULE = HostRule(("Queue.Example.org.", "db_1"))


def asked(host: str | None, origin: str | None = None, site: str | None = None) -> PermissionDenied | None:
    values = [None if text is None else text.encode("latin-1") for text in (host, origin, site)]
    return RULE.refusal(host=values[0], origin=values[1], site=values[2])


@pytest.mark.clause("Y6")
@pytest.mark.parametrize(
    "host",
    [
        None,  # HTTP/1.0, and programs that do without: no browser does.
        "127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:80",
        "[::1]:8080",
        "[::1]",
        "[FE80::1%eth0]:8080",
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "localhost.:8080",
        "localhost:",
        "queue.example.org",
        "QUEUE.example.ORG.:9000",
        "db_1:8080",
    ],
)
def test_a_program_asks_under_an_address_or_a_name_of_the_server(host: str | None) -> None:
    assert asked(host) is None


@pytest.mark.clause("Y6")
@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "rebound.example",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "foo.localhost",
        "queue.example.org.rebound.example",
        "x.queue.example.org",
        "0x7f000001",
        "2130706433",
        "127.1",
        "::1",
        "[localhost]",
        "[::1",
        "localhost:80:80",
        "localhost:x",
        "me@localhost",
        "localhost/",
        "localhost, localhost",
        "local host",
        "lôcalhost",
    ],
)
def test_another_name_is_refused_and_the_refusal_says_how_to_allow_it(host: str) -> None:
    refused = asked(host)
    assert isinstance(refused, HostRefused)
    assert (refused.code, refused.status) == ("PERMISSION_DENIED", 403)
    assert "add it to the names in DRIFTQ_ALLOWED_HOSTS" in refused.message


@pytest.mark.clause("Y6")
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("LOCALHOST:8080", "http://localhost:8080"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost"),  # Behind a proxy that speaks TLS.
        ("localhost:443", "https://localhost"),
        ("localhost", "http://localhost:80"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("[0:0::1]:8080", "http://[::1]:8080"),
        ("queue.example.org", "https://queue.example.org"),
    ],
)
@pytest.mark.parametrize("site", [None, "same-origin", "none"])
def test_a_page_of_the_server_itself_may_ask(host: str, origin: str, site: str | None) -> None:
    assert asked(host, origin, site) is None


@pytest.mark.clause("Y6")
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "null"),
        ("localhost:8080", ""),
        ("localhost:8080", "http://localhost"),
        ("localhost:8080", "http://localhost:3000"),
        ("localhost:8080", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://localhost:8080"),
        ("localhost", "http://localhost:443"),
        ("localhost:443", "http://localhost"),
        ("localhost:8080", "https://evil.example"),
        ("localhost:8080", "http://localhost:8080, http://localhost:8080"),
        ("localhost:8080", "http://localhost:8080/"),
        ("localhost:8080", "http://localhost:8080@evil.example"),
        ("localhost:8080", "localhost:8080"),
        ("localhost:8080", "file://"),
        (None, "http://localhost:8080"),
        ("", "http://"),
    ],
)
def test_a_page_of_another_origin_is_refused(host: str | None, origin: str) -> None:
    refused = asked(host, origin)
    assert isinstance(refused, PageRefused)
    assert (refused.header, refused.value) == ("Origin", origin)


@pytest.mark.clause("Y6")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "same-origin, cross-site", ""])
def test_what_the_browser_calls_foreign_is_refused_whatever_the_rest_says(site: str) -> None:
    refused = asked("localhost:8080", "http://localhost:8080", site)
    assert isinstance(refused, PageRefused)
    assert refused.header == "Sec-Fetch-Site"


@pytest.mark.clause("Y6")
def test_a_page_that_rebinds_its_own_name_is_refused_by_that_name() -> None:
    refused = asked("evil.example:8080", "http://evil.example:8080", "same-origin")
    assert isinstance(refused, HostRefused)
    assert refused.host == "evil.example"
