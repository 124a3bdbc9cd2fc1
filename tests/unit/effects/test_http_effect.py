"""`HttpEffect` against a real API: what each answer means, which key it gets, and what is never said."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.effects.declared import check_declared
from driftq.effects.http import Outcome, outcome_of
from driftq.errors import InvalidArgument
from driftq.registry.verdict import UnknownEffect
from tests.support.http_api.process import HttpApi

SECRETS = {"Authorization": "Bearer hunter2"}


@dataclass
class Run:
    """One attempt of a handler."""

    handler: str = "billing"
    effect_id: str = "e-1"
    effect: driftq.Effect = driftq.Effect.IDEMPOTENT
    token: int = 7
    lost: bool = False


@pytest.fixture
def api(tmp_path: Path) -> Iterator[HttpApi]:
    with HttpApi(tmp_path / "api") as running:
        yield running


@pytest.fixture
def keyed(api: HttpApi) -> Iterator[driftq.HttpEffect]:
    effect = driftq.HttpEffect(f"{api.url}/keyed", honours_keys=True, headers=SECRETS)
    yield effect
    effect.close()


@pytest.fixture
def plain(api: HttpApi) -> driftq.HttpEffect:
    return driftq.HttpEffect(f"{api.url}/plain", honours_keys=False, headers=SECRETS)


@pytest.mark.clause("K6")
@pytest.mark.parametrize(
    ("statuses", "with_keys", "without"),
    [
        ((200, 201, 204), Outcome.DONE, Outcome.DONE),
        ((301, 302, 303, 307, 308), Outcome.REFUSED, Outcome.REFUSED),
        ((400, 401, 403, 404, 409, 422), Outcome.REFUSED, Outcome.REFUSED),
        ((408, 425, 429, 503), Outcome.RETRY, Outcome.RETRY),
        ((500, 502, 504, 599), Outcome.RETRY, Outcome.UNKNOWN),
    ],
)
def test_what_a_status_means(statuses: tuple[int, ...], with_keys: Outcome, without: Outcome) -> None:
    for status in statuses:
        assert outcome_of(status, honours_keys=True) is with_keys
        assert outcome_of(status, honours_keys=False) is without


@pytest.mark.clause("K4", "K6")
def test_every_attempt_of_an_event_has_one_key_and_its_own_token(
    api: HttpApi, keyed: driftq.HttpEffect
) -> None:
    assert keyed.post(Run(), json="tea").json() == {"performed": "tea"}
    assert keyed.post(Run(token=8), json="tea").json() == {"performed": "tea"}
    keyed.post(Run(effect_id="e-2"), json="coffee")
    keyed.post(Run(handler="shipping"), json="milk")
    keyed.post(Run(), json="sugar", part="extra")
    first, second, *others = api.requests()
    assert first["key"] == second["key"]
    assert (first["token"], second["token"]) == ("7", "8")
    assert len({first["key"], *(one["key"] for one in others)}) == 4
    assert api.effects() == dict.fromkeys(("tea", "coffee", "milk", "sugar"), 1)


@pytest.mark.parametrize(
    ("mode", "error", "after"),
    [
        ("status 429 7", driftq.Retry, 7.0),
        ("status 503 99999", driftq.Retry, 3600.0),
        ("status 408", driftq.Retry, None),
        ("status 500", driftq.Retry, None),
        ("drop", driftq.Retry, None),
        ("lose", driftq.Retry, None),
        ("break", driftq.Retry, None),
        ("status 422", driftq.Reject, None),
        ("status 302", driftq.Reject, None),
    ],
)
def test_with_keys_a_failure_is_tried_again_or_given_up(
    api: HttpApi, keyed: driftq.HttpEffect, mode: str, error: type[Exception], after: float | None
) -> None:
    api.behave(mode)
    with pytest.raises(error) as raised:
        keyed.post(Run(), json="tea")
    assert getattr(raised.value, "after", None) == after
    said = f"{raised.value} {keyed!r}"
    assert not [secret for secret in ("hunter2", "tea", "/keyed") if secret in said]
    api.behave("ok")
    keyed.post(Run(), json="tea")
    assert api.effects() == {"tea": 1}


@pytest.mark.clause("K6")
@pytest.mark.parametrize("mode", ["drop", "lose", "break", "status 500", "status 502"])
def test_without_keys_a_lost_answer_is_unknown(api: HttpApi, plain: driftq.HttpEffect, mode: str) -> None:
    api.behave(mode)
    with pytest.raises(UnknownEffect) as raised:
        plain.post(Run(effect=driftq.Effect.UNKNOWN), json="tea")
    assert "hunter2" not in str(raised.value)
    assert len(api.requests()) == 1


def test_an_api_that_is_away_has_done_nothing(api: HttpApi, plain: driftq.HttpEffect) -> None:
    api.kill()
    with pytest.raises(driftq.Retry, match="not reachable"):
        plain.post(Run(effect=driftq.Effect.UNKNOWN), json="tea")


def test_an_api_that_stalls_is_given_up_after_the_timeout(api: HttpApi) -> None:
    api.behave("stall")
    impatient = driftq.HttpEffect(f"{api.url}/plain", honours_keys=False, timeout_s=0.2)
    with pytest.raises(UnknownEffect, match="timed out"):
        impatient.post(Run(effect=driftq.Effect.UNKNOWN), json="tea")
    api.behave("ok")


def test_a_connection_that_was_closed_while_idle_is_opened_again(
    api: HttpApi, keyed: driftq.HttpEffect
) -> None:
    keyed.post(Run(), json="tea")
    api.kill()
    api.start()
    keyed.post(Run(effect_id="e-2"), json="coffee")
    assert api.effects() == {"tea": 1, "coffee": 1}


def test_two_different_calls_under_one_key_are_refused_before_the_second_is_sent(
    api: HttpApi, keyed: driftq.HttpEffect
) -> None:
    run = Run()
    keyed.post(run, json="tea")
    keyed.post(run, json="tea")
    with pytest.raises(InvalidArgument, match="part"):
        keyed.post(run, json="coffee")
    assert api.effects() == {"tea": 1}


@pytest.mark.clause("K4")
def test_nothing_is_sent_under_a_lost_lease(api: HttpApi, keyed: driftq.HttpEffect) -> None:
    with pytest.raises(driftq.Retry, match="lease"):
        keyed.post(Run(lost=True), json="tea")
    assert api.requests() == []


def test_nothing_is_sent_for_a_handler_whose_declaration_does_not_fit(
    api: HttpApi, plain: driftq.HttpEffect, keyed: driftq.HttpEffect
) -> None:
    with pytest.raises(driftq.Reject, match="declare it unknown"):
        plain.post(Run(), json="tea")
    with pytest.raises(driftq.Reject, match="declare it idempotent"):
        keyed.post(Run(effect=driftq.Effect.TRANSACTIONAL), json="tea")
    assert api.requests() == []


FORGETS = driftq.HttpEffect("http://127.0.0.1:1/x", honours_keys=False)


def names_a_global(event: Any, context: Any) -> None:
    FORGETS.post(context, json=event)


def takes_it(api: driftq.HttpEffect, event: Any, context: Any) -> None:
    api.post(context, json=event)


class HasIt:
    def __init__(self) -> None:
        self.api = FORGETS

    def __call__(self, event: Any, context: Any) -> None:
        self.api.post(context, json=event)


def _closes_over_it() -> Callable[..., Any]:
    api = FORGETS
    return lambda event, context: api.post(context, json=event)


@pytest.mark.clause("K6")
@pytest.mark.parametrize(
    "handler", [names_a_global, partial(takes_it, FORGETS), HasIt(), HasIt().__call__, _closes_over_it()]
)
def test_a_declaration_that_does_not_fit_is_refused_at_the_start(handler: Callable[..., Any]) -> None:
    check_declared("billing", handler, driftq.Effect.UNKNOWN)
    with pytest.raises(InvalidArgument, match="declare it unknown"):
        check_declared("billing", handler, driftq.Effect.IDEMPOTENT)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "ftp://hunter2.example.com"}, "write the address"),
        ({"url": "https://me:hunter2@example.com"}, "give them in headers"),
        ({"url": "https://example.com/a b"}, "write the address"),
        ({"headers": {"X-Key": "hunter2\r\nX: y"}}, "the value of X-Key"),
        ({"headers": {"X Key": "hunter2"}}, "cannot name a header"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"retry_on": [200]}, "retry_on"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem) as refused:
        made: dict[str, Any] = {"url": "https://example.com", "honours_keys": True} | given
        driftq.HttpEffect(**made)
    assert "hunter2" not in str(refused.value)


def test_it_travels_without_its_connections(api: HttpApi, keyed: driftq.HttpEffect) -> None:
    keyed.post(Run(), json="tea")
    with closing(pickle.loads(pickle.dumps(keyed))) as copied:
        copied.post(Run(), json="tea")
    assert api.effects() == {"tea": 1}
    assert "hunter2" not in repr(keyed)


@pytest.mark.clause("Y4")
def test_no_secret_is_in_a_log_line(
    api: HttpApi, keyed: driftq.HttpEffect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api.behave("status 401")
    with pytest.raises(driftq.Reject):
        keyed.post(Run(), json="tea")
    assert "hunter2" not in caplog.text
