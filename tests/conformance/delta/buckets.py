"""A Delta sink in a bucket of the test's S3 server."""

from driftq.sinks import DeltaSink
from tests.services_s3 import S3Server


def sink_in(server: S3Server) -> DeltaSink:
    """Another prefix each time."""
    options = {
        "AWS_ACCESS_KEY_ID": server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
        "AWS_REGION": server.region,
    }
    address = server.fresh_url().replace("s3://", "delta+s3://")
    return DeltaSink(address, storage_options=options, s3_endpoint=server.endpoint)
