"""The table of Spark's Kafka connectors, and the poms that pin the same sets for the tests."""

from xml.etree import ElementTree

import pytest

from driftq.errors import SparkUnusable
from driftq.model.options.kafka import PROVIDED, KafkaOptions
from driftq.pipeline.spark.connector_jars import connector_settings
from driftq.pipeline.spark.connectors import CONNECTORS, connector_of
from tests.support.maven import POMS

NAMESPACE = "{http://maven.apache.org/POM/4.0.0}"


def pinned(pom: str) -> list[str]:
    root = ElementTree.parse(POMS / pom / "pom.xml").getroot()
    names = [f"{NAMESPACE}{name}" for name in ("groupId", "artifactId", "version")]
    return [
        ":".join(str(one.findtext(name)) for name in names) for one in root.iter(f"{NAMESPACE}dependency")
    ]


@pytest.mark.clause("Z7")
@pytest.mark.parametrize("minor", CONNECTORS)
def test_the_tests_run_on_the_sets_that_users_get(minor: str) -> None:
    assert pinned(f"spark-kafka-{minor}") == list(CONNECTORS[minor].coordinates)


def test_a_version_of_spark_takes_the_connector_of_its_minor_version() -> None:
    assert connector_of("4.0.5") is CONNECTORS["4.0"]
    assert str(connector_of("4.3.0")).endswith("4.2.0 with the token provider of 4.0.0, kafka-clients 3.9.2")
    with pytest.raises(SparkUnusable, match=r"no Kafka connector for Spark 5.0.0 .*DRIFTQ_SPARK_KAFKA_JARS"):
        connector_of("5.0.0")


def test_jars_that_are_set_are_used_as_they_are() -> None:
    assert connector_settings(KafkaOptions(spark_jars="/a.jar,/b.jar"), "9.9") == {
        "spark.jars": "/a.jar,/b.jar"
    }
    assert connector_settings(KafkaOptions(spark_jars=PROVIDED), "9.9") == {}
