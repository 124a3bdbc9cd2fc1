"""What all suites share: a marker per folder, and the rule for tests whose service is missing.

A fixture that cannot reach or start its service skips the test and says why. That is right on a laptop.
With DRIFTQ_REQUIRE_SERVICES=1, as in CI, such a test fails instead, so that nothing is left out unseen.
"""

import asyncio
import inspect
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.forked import run_in_child
from tests.support.sharing import SharedByModule, is_on_spark
from tests.support.spark_classes import start_spark_soon

TESTS = Path(__file__).parent
SOME_SPARK = "tests/docs/test_code_blocks.py"
"""Where a page or two start Spark."""
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")  # A busy machine is slow, and that is no fault of an example.
SERVICES_REQUIRED = os.environ.get("DRIFTQ_REQUIRE_SERVICES", "") not in ("", "0")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(*names): clauses of docs/contract.md that this test proves")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in the background so, and what a test starts and interrupts inherits it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its suite, which is its folder under tests/."""
    tell_apart(items)
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.parent != TESTS:
            item.add_marker(item.path.relative_to(TESTS).parts[0])


def tell_apart(items: list[pytest.Item]) -> None:
    """Of tests with the same id all but one would be lost where several processes share the work."""
    for item in items:
        if "[" in item.name and "[" not in item.nodeid and item.parent is not None:
            item._id = item.parent.id.child(item.name)  # Made by a plugin, which names no more than the item.
    doubled = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if doubled:
        raise pytest.UsageError(f"several tests have the same id: {', '.join(doubled)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return SharedByModule(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if is_on_spark(item.nodeid):
        start_spark_soon()
    elif item.nodeid.startswith(SOME_SPARK):
        start_spark_soon(make=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine on a loop of its own; and in a forked child what its suite wants there."""
    callspec = getattr(pyfuncitem, "callspec", None)
    forked = callspec is not None and callspec.params.get("process") == "forked"
    awaited = inspect.iscoroutinefunction(pyfuncitem.obj)
    if not forked and not awaited:
        return None
    wanted = pyfuncitem._fixtureinfo.argnames

    def call() -> None:
        result = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted})
        if awaited:
            asyncio.run(result)

    if forked:
        run_in_child(call)
    else:
        call()
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
