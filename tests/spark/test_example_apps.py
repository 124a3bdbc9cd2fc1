"""The example of a rebuild does on Spark what its docstring says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from driftq.pipeline import Projection
from driftq.pipeline.app.file import load_app_file
from driftq.pipeline.projection.folds import Ordered
from driftq.pipeline.read_model import rows
from driftq.settings import load_settings
from tests.harness import ServerProcess
from tests.spark.events import create, event, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rebuild_read_model.py"


@pytest.mark.clause("V4")
def test_a_mended_fold_is_applied_by_a_rebuild(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(server, "events.account", partitions=1)
    send(server, "events.account", [_change(1, "credited", 40), _change(2, "debited", 15)])
    options = load_settings().pipeline(url=url, data=str(tmp_path))
    [projection] = load_app_file(str(EXAMPLE)).require_app().projections
    assert isinstance(projection, Projection)
    assert isinstance(projection.fold, Ordered)
    sign = projection.fold.step.__globals__["SIGN"]

    with monkeypatch.context() as before_the_mend:
        before_the_mend.setitem(sign, "account.debited", 1)
        projection.run(spark, options=options, once=True)
        assert [row["state"] for row in rows(options, "balances")] == [{"balance": 55}]

    projection.rebuild(options).run(spark, lambda _: None)
    assert [row["state"] for row in rows(options, "balances")] == [{"balance": 25}]


def _change(sequence: int, what: str, amount: int) -> dict[str, Any]:
    account = {"event_type": f"account.{what}", "payload": {"amount": amount}}
    return event(sequence, of="a-1", kind="account", **account)
