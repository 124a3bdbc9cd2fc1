"""Addresses, settings and outages: each mistake is one sentence, and none shows a secret."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.sinks import DeltaSink
from driftq.sinks.delta.sink import location_of
from driftq.testing.sinks.cast import ORDERS, batch, change, seen
from tests.conformance.delta.buckets import sink_in
from tests.conformance.delta.conftest import NAME
from tests.services_s3 import S3Server, seaweedfs

SECRET = "hunter2-is-secret"


@pytest.mark.clause("V8")
@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("/rows", "/rows"),
        ("delta:///rows/in%20here", "/rows/in here"),
        ("delta://localhost/rows", "/rows"),
        ("delta+s3://bucket/a/b/", "s3://bucket/a/b"),
        ("delta+s3://bucket", "s3://bucket"),
        ("s3://bucket/a", "s3://bucket/a"),
    ],
)
def test_an_address_names_a_folder_or_a_bucket(address: str, uri: str) -> None:
    sink = DeltaSink(address)
    assert location_of(sink).uri == uri
    assert pickle.loads(pickle.dumps(sink)) == sink


@pytest.mark.clause("V8")
@pytest.mark.parametrize(
    "address",
    [
        "",
        "delta://",
        "delta:///",
        "delta://host/rows",
        "delta+s3:///rows",
        f"delta+s3://key:{SECRET}@bucket/rows",
        f"delta:///rows?key={SECRET}",
        "delta+s3://[bucket/rows",
        "http://host/rows",
        "a\nb",
    ],
)
def test_any_other_address_is_refused_with_a_sentence(address: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        DeltaSink(address)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.clause("V8")
def test_without_the_extra_the_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['deltalake'] = None\n"
        "from driftq.errors import InvalidArgument\n"
        "from driftq.sinks import DeltaSink\n"
        "try: DeltaSink(sys.argv[1]).connect('orders')\n"
        "except InvalidArgument as missing: print(missing)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert said.stdout == "sink: deltalake is missing: pip install 'driftq[delta]'\n"


@pytest.mark.clause("V8", "V3")
def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "in_the_way").write_text("a file where a folder should be")
    with pytest.raises(ReadModelUnavailable, match=r"in_the_way.*: name a folder that this user may") as away:
        DeltaSink(str(tmp_path / "in_the_way")).connect("orders").take_over()
    assert "\n" not in str(away.value)


@pytest.mark.clause("V8", "V3")
def test_a_bucket_that_is_missing_or_closed_is_an_outage_in_one_sentence(s3_server: S3Server) -> None:
    right = sink_in(s3_server)
    wrong_key = {**right.storage_options, "AWS_SECRET_ACCESS_KEY": SECRET}
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert SECRET not in repr(DeltaSink(right.address, storage_options=wrong_key))
    for sink, cause in (
        (
            DeltaSink(right.address, storage_options=wrong_key, s3_endpoint=right.s3_endpoint),
            "Signature.*check the access key",
        ),
        (
            DeltaSink(
                "delta+s3://no-such-bucket/a",
                storage_options=right.storage_options,
                s3_endpoint=right.s3_endpoint,
            ),
            "NoSuchBucket.*create the bucket",
        ),
    ):
        with pytest.raises(ReadModelUnavailable, match=cause) as away:
            sink.connect(NAME)
        assert SECRET not in str(away.value)
        assert "\n" not in str(away.value)
        assert not set(keys) & set(str(away.value).split())


@pytest.mark.clause("V8", "V3", "V3c")
@pytest.mark.timeout(180)
def test_a_bucket_goes_away_and_nothing_of_the_batch_is_there(tmp_path: Path) -> None:
    with seaweedfs(tmp_path) as server:
        model = sink_in(server).connect(NAME)
        epoch = model.take_over()
        model.apply(batch(change(1), upto=1), epoch)
        assert (seen(model), model.positions()) == ({("order", "o-1"): (1, {"at": 1})}, {ORDERS: 1})
    with pytest.raises(ReadModelUnavailable):
        model.apply(batch(change(2), upto=2), epoch)
    with pytest.raises(ReadModelUnavailable):
        model.positions()
