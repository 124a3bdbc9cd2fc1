"""What all suites share: a marker per folder, and the rule for tests whose service is missing.

A fixture that cannot reach or start its service skips the test and says why. That is right on a laptop.
With DRIFTQ_REQUIRE_SERVICES=1, as in CI, such a test fails instead, so that nothing is left out unseen.
"""

import asyncio
import inspect
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ON_SPARK = ("spark", "acceptance/pipeline", "acceptance/spark_worker")
"""Suites that need the machine's patience: of these one test runs at a time."""
SERVICES_REQUIRED = os.environ.get("DRIFTQ_REQUIRE_SERVICES", "") not in ("", "0")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(*names): clauses of docs/contract.md that this test proves")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in the background so, and what a test starts and interrupts inherits it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its suite, which is its folder under tests/."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.parent != TESTS:
            within = item.path.relative_to(TESTS)
            item.add_marker(within.parts[0])
            if within.as_posix().startswith(ON_SPARK):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


def _fail_if_left_out(report: pytest.TestReport | pytest.CollectReport) -> None:
    if SERVICES_REQUIRED and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"DRIFTQ_REQUIRE_SERVICES is set, but this did not run. {reason}"
        report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_left_out(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_left_out(report)
    return report
