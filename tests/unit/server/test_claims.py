"""A claim brings the stored jobs along; those that only the disk has are read after the commit."""

from pathlib import Path

import msgspec
import pytest

from driftq.log import disk
from driftq.log.disk import OsFolder
from driftq.model.job import JobRequest
from driftq.server.jobs.requests import ClaimRequest, EnqueueRequest, JobsGranted
from driftq.storage.entry import decode_job
from tests.support.direct import DirectClient, start


async def enqueue(client: DirectClient, *payloads: bytes) -> None:
    jobs = [JobRequest(queue="q", task="t", payload=msgspec.Raw(payload)) for payload in payloads]
    await client.ask(lambda reply: client.engine.submit(EnqueueRequest(jobs, reply)))


async def claim(client: DirectClient) -> JobsGranted:
    granted = await client.ask(
        lambda reply: client.engine.submit(ClaimRequest(["q"], "w", 30_000, 10, 0, reply))
    )
    assert isinstance(granted, JobsGranted)
    return granted


def payloads(entries: list[bytes]) -> list[bytes]:
    return [bytes(decode_job(entry).payload) for entry in entries]


async def test_a_claim_of_new_jobs_needs_no_second_read(tmp_path: Path) -> None:
    client = start(OsFolder(str(tmp_path)))
    await enqueue(client, b"1", b"2", b"3")
    granted = await claim(client)
    assert granted.entries is not None
    assert payloads(granted.entries) == [b"1", b"2", b"3"]
    await client.broker.close()


async def test_claimed_jobs_that_only_the_disk_has_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start(OsFolder(str(tmp_path)))
    await enqueue(client, b"1", b"2")
    client.engine.payloads.forget()  # As if the newest bytes had long left memory.
    monkeypatch.setattr(disk, "_NO_WAIT", None)
    granted = await claim(client)
    assert granted.entries is None
    reader = client.engine.stages.job_reader
    entries = await client.ask(lambda reply: reader.entries(granted.record.offsets, reply))
    assert payloads(entries) == [b"1", b"2"]
    await client.broker.close()
