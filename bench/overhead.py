"""What operating a server costs: idle consumers and an open dashboard, keys and metrics, traces.

The work of the server is counted in instructions where valgrind is installed, which the machine's load does
not change. A worker's is processor time: the least of some runs, each way by turns.

`python -m bench.overhead serve …` is a server without histograms, `python -m bench.overhead work URL SHARE`
a worker that traces that share of its messages, or loads no OpenTelemetry where SHARE is `none`.
"""

import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import psutil

from bench.harness.figure import Figure, below
from bench.machine import folder, server
from bench.work.compare import Subject, subject
from bench.work.meter import Meter, best_meter
from bench.work.scenarios import SCENARIOS, single_produce, traced_produce
from bench.work.source import ROOT
from driftq.client.producing.outgoing import EnvelopeFields

CONSUMERS = int(os.environ.get("BENCH_IDLE_CONSUMERS", "1000"))
WATCHED_S = float(os.environ.get("BENCH_IDLE_SECONDS", "30"))
TOPICS = 10
IDLE_MAX = 0.03
DEARER_MAX = 1.05
MESSAGES = int(os.environ.get("BENCH_TRACED_MESSAGES", "3000"))
RUNS = 4
SAMPLED = "0.01"


def overhead() -> list[Figure]:
    return [*idle(), *guarded(), *traced()]


# Idle consumers and an open page


def idle() -> list[Figure]:
    """The share of a core that a server uses with consumers that wait, and a page of the dashboard open."""
    found = []
    with server() as running:
        for page in ("", "topics"):
            share = asyncio.run(_watched(running.port, running.process.pid, page))
            name = f"server with {CONSUMERS:,} idle consumers and the page /v1/ui/{page} open"
            found.append(Figure(name, share, "%", below(IDLE_MAX)))
    return found


async def _watched(port: int, pid: int, page: str) -> float:
    call = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(TOPICS):
        call.request("POST", "/v1/topics", json.dumps({"name": f"topic-{number}", "partitions": 4}))
        call.getresponse().read()
    call.close()
    streams = [
        await _request(
            port,
            "/v1/consume?"
            + urlencode({"topic": f"topic-{number % TOPICS}", "group": "g", "owner": f"o{number}"}),
        )
        for number in range(CONSUMERS)
    ]
    reading = asyncio.create_task(_read_page(port, page))
    try:
        await asyncio.sleep(3)
        process = psutil.Process(pid)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        await asyncio.sleep(WATCHED_S)
        return float(sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    finally:
        reading.cancel()
        for _, writer in streams:
            writer.close()


async def _request(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    if not (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200"):
        raise RuntimeError(path)
    return reader, writer


async def _read_page(port: int, page: str) -> None:
    """What a browser does: it reads the events, and asks for the page's list with each."""
    reader, _ = await _request(port, "/v1/ui/live")
    while line := await reader.readline():
        if line.startswith(b"event: overview") and page:
            _, writer = await _request(port, f"/v1/ui/view/{page}?limit=100")
            writer.close()


# Keys and metrics


def guarded() -> list[Figure]:
    """A produce with a key on a server with keys and metrics, against one with neither."""
    meter = best_meter()
    with folder() as place, ExitStack() as stack:
        keys, key = _new_key(place)
        program = ("-m", "bench.overhead")
        off = stack.enter_context(subject(ROOT / "src", meter, program=program))
        on = stack.enter_context(subject(ROOT / "src", meter, arguments=("--api-keys", str(keys)), key=key))
        return [
            _compared(
                f"{name}: keys and metrics on, against off", meter, _counter(off, name), _counter(on, name)
            )
            for name in ("single produce", "batch of 100, a message")
        ]


def _new_key(place: Path) -> tuple[Path, str]:
    keys = place / "keys.json"
    command = [
        sys.executable,
        "-m",
        "driftq",
        "key",
        "create",
        "bench",
        "--file",
        str(keys),
        "--role",
        "admin",
    ]
    return keys, subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def _counter(one: Subject, name: str) -> Callable[[], float]:
    return lambda: one.count(name)


def _compared(name: str, meter: Meter, off: Callable[[], float], on: Callable[[], float]) -> Figure:
    pairs = [(off(), on()) for _ in range(meter.pairs)]
    ratio = statistics.median(dearer / cheap for cheap, dearer in pairs)
    return Figure(f"{name} ({meter.unit})", ratio, "×", below(DEARER_MAX))


# Traces


def traced() -> list[Figure]:
    """A produce whose message carries a trace, and a worker that runs its handlers in spans."""
    meter = best_meter()
    with subject(ROOT / "src", meter) as one:
        run = {"plain": single_produce, "traced": traced_produce}
        found = [
            _compared(
                "server: produce with a traceparent, against without",
                meter,
                lambda: one.count_run(run["plain"], SCENARIOS["single produce"][1]),
                lambda: one.count_run(run["traced"], SCENARIOS["single produce"][1]),
            )
        ]
    shares = ("none", SAMPLED, "1")
    spent: dict[str, float] = {}
    for _ in range(RUNS):
        for share in shares:
            spent[share] = min(spent.get(share, float("inf")), _worked(share))
    each = spent["none"] / MESSAGES * 1e6
    sampled, every = spent[SAMPLED] / spent["none"], spent["1"] / spent["none"]
    name = f"worker, {each:.0f} CPU µs a message without traces:"
    found.append(Figure(f"{name} 1 % sampled", sampled, "×", below(DEARER_MAX)))
    found.append(Figure(f"{name} all sampled", every, "×"))
    return found


def _worked(share: str) -> float:
    """Seconds of processor time that a worker needs for all messages."""
    with server() as running:
        command = [sys.executable, "-m", "bench.overhead", "work", f"http://127.0.0.1:{running.port}", share]
        return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def _work(url: str, share: str) -> None:
    import threading

    import driftq

    if share != "none":
        _trace(float(share))
    done, handled = threading.Event(), 0
    with driftq.Client(url) as client:
        client.create_topic("orders")
        ratio = 0.0 if share == "none" else float(share)
        for number in range(0, MESSAGES, 100):
            for place in range(number, number + 100):
                flag = place % 100 < ratio * 100
                parent = f"00-{place + 1:032x}-{place + 1:016x}-{int(flag):02x}"
                envelope: EnvelopeFields = {} if share == "none" else {"traceparent": parent}
                client.produce("orders", "x" * 100, **envelope)
        worker = driftq.Worker(client, group="billing")

        @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
        def handle(_message: driftq.Message, _context: driftq.Context) -> None:
            nonlocal handled
            handled += 1
            if handled == MESSAGES:
                done.set()

        before = time.process_time()
        worker.start()
        done.wait()
        print(time.process_time() - before)
        worker.stop()


def _trace(ratio: float) -> None:
    """OpenTelemetry as an application sets it up; spans end in memory."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(ratio))
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(provider)


def _serve_without_histograms() -> None:
    from driftq.server import histograms

    histograms.stopwatch = float
    histograms.Histogram.observe = lambda *_, **__: None  # type: ignore[method-assign]
    from driftq.cli import main

    main()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        _work(*sys.argv[2:])
    else:
        _serve_without_histograms()
