"""The OpenAPI document, by a validator that is not ours."""

import json
import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from driftq.http.api.openapi import document
from driftq.http.api.router import ROUTES

DOCUMENT = document(ROUTES, version="test")


@pytest.mark.clause("H5")
def test_the_document_is_valid() -> None:
    as_sent: Any = json.loads(json.dumps(DOCUMENT))
    assert [error.message for error in OpenAPIV31SpecValidator(as_sent).iter_errors()] == []


@pytest.mark.clause("H5")
def test_every_reference_leads_somewhere() -> None:
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert named - set(DOCUMENT["components"]["schemas"]) == set()


@pytest.mark.clause("H5")
def test_types_have_names_of_their_own() -> None:
    """Two of one name would be told apart by their modules, and generated clients be called after those."""
    assert [name for name in DOCUMENT["components"]["schemas"] if "." in name] == []


@pytest.mark.clause("H5")
def test_every_route_is_an_operation_of_its_own() -> None:
    operations = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(set(operations)) == len(operations) == len(ROUTES)


@pytest.mark.clause("H5")
def test_a_result_of_a_list_may_be_an_error() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for reply, done in (("AckBatchReply", "AckedDelivery"), ("SettleReply", "SettledJob")):
        kinds = schemas[reply]["properties"]["results"]["items"]["anyOf"]
        assert [kind["$ref"].rpartition("/")[2] for kind in kinds] == [done, "ErrorReply"]


@pytest.mark.clause("H5")
def test_a_reply_is_said_to_have_what_it_always_has() -> None:
    """The types leave out some fields that have their default, and write others however they are."""
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Receipt"]["required"] == ["status", "topic", "partition", "offset", "duplicate"]
    assert schemas["EnqueuedJob"]["required"] == ["job_id", "state", "duplicate"]
    assert set(schemas["TopicView"]["required"]) == set(schemas["TopicView"]["properties"])
    assert schemas["EffectStatus"]["required"] == ["status"]
    assert schemas["TopicBody"]["required"] == ["name"]
