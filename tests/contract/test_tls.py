"""TLS: a real server process and the real clients, certificates of clients, and a reload under a stream."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq
from driftq.errors import CertificateUnusable, ServerUnreachable
from driftq.model.options.credentials import Credentials
from driftq.transport.server import Server as PipelineServer
from tests.contract.keyed import KeyedServer
from tests.contract.serving import PATIENCE_S
from tests.support.certificates import Authority
from tests.support.waiting import wait_until


class TlsServer(KeyedServer):
    """A server with a certificate of its own authority; `asks_clients` for mutual TLS."""

    def __init__(self, folder: Path, *, asks_clients: bool = False) -> None:
        self.authority = Authority(folder / "certs")
        self.cert, self.key_file = self.authority.sign("server")
        more = {"tls_client_ca": str(self.authority.file)} if asks_clients else {}
        super().__init__(folder, tls_cert=str(self.cert), tls_key=str(self.key_file), **more)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def replace_certificate(self, cert: Path, key: Path) -> None:
        shutil.copy(key, self.key_file)
        shutil.copy(cert, self.cert)

    def shown_certificate(self) -> bytes:
        """The certificate that a new connection gets."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        with context.wrap_socket(plain) as secured:
            return secured.getpeercert(binary_form=True) or b""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with TlsServer(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with TlsServer(tmp_path_factory.mktemp("mutual"), asks_clients=True) as running:
        yield running


@pytest.mark.clause("Y5")
def test_every_client_talks_https_to_a_server_that_it_trusts(served: TlsServer, tmp_path: Path) -> None:
    ca_file = str(served.authority.file)
    with driftq.Client(served.url, api_key=served.admin, ca_file=ca_file) as client:
        client.create_topic("orders")
        client.produce_many("orders", [str(n) for n in range(100)])
        with client.consume("orders", "billing") as consumer:
            for n, delivery in zip(range(100), consumer, strict=False):
                assert delivery.value == str(n)
                delivery.ack()
        assert len(list(client.records("orders"))) == 100

    async def ask() -> list[str]:
        async with driftq.AsyncClient(served.url, api_key=served.admin, ca_file=ca_file) as client:
            return await client.topics()

    assert asyncio.run(ask()) == ["orders"]
    credentials = Credentials(api_key=served.admin, ca_file=ca_file)
    pipeline = PipelineServer(served.url, credentials=credentials)
    assert b"orders" in pipeline.content("/v1/topics")
    pipeline.close()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
    environ |= {"DRIFTQ_URL": served.url, "DRIFTQ_API_KEY": served.admin, "DRIFTQ_CA_FILE": ca_file}
    for command in (["topic", "list"], ["consume", "orders", "--group", "cli", "--max", "3"]):
        said = subprocess.run(
            [sys.executable, "-m", "driftq", *command],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode == 0, said.stderr


@pytest.mark.clause("Y5")
def test_a_server_that_is_not_trusted_gets_no_key(served: TlsServer, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    for ca_file in (None, str(other.file)):
        client = driftq.Client(served.url, timeout_s=1, api_key=served.admin, ca_file=ca_file)
        with client, pytest.raises(ServerUnreachable, match="certificate"):
            client.topics()
        credentials = Credentials(api_key=served.admin, ca_file=ca_file)
        pipeline = PipelineServer(served.url, credentials=credentials, patience_s=0)
        with pytest.raises(ServerUnreachable, match="its certificate is not valid here"):
            pipeline.content("/v1/topics")
        pipeline.close()
    with pytest.raises(CertificateUnusable, match="no such file"):
        driftq.Client(served.url, ca_file=str(tmp_path / "missing.pem"))


@pytest.mark.clause("Y5")
def test_plain_http_gets_nothing_and_tls_12_is_enough(served: TlsServer) -> None:
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as plain:
        plain.sendall(b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            said = plain.recv(65536)
        except ConnectionResetError:
            said = b""
    assert b"HTTP" not in said
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with context.wrap_socket(socket.create_connection(("127.0.0.1", served.port), PATIENCE_S)) as secured:
        assert secured.version() == "TLSv1.2"


@pytest.mark.clause("Y5")
def test_a_certificate_is_replaced_while_a_stream_goes_on(served: TlsServer) -> None:
    ca_file = str(served.authority.file)
    before = served.shown_certificate()
    with driftq.Client(served.url, api_key=served.admin, ca_file=ca_file) as client:
        client.create_topic("renewed")
        with client.consume("renewed", "g") as consumer:
            client.produce("renewed", "before")
            deliveries = iter(consumer)
            assert next(deliveries).value == "before"
            connections = _streams(served)
            served.replace_certificate(*served.authority.sign("renewed"))
            wait_until("a new connection gets the new one", lambda: served.shown_certificate() != before)
            client.produce("renewed", "after")
            assert next(deliveries).value == "after"
            assert _streams(served) == connections  # The client did not have to connect again.
    after = served.shown_certificate()
    served.cert.write_text("nonsense")
    served.hang_up_signal()
    wait_until(
        "the nonsense is logged", lambda: "new connections get the certificate from before" in served.logged
    )
    assert served.shown_certificate() == after


def _streams(server: TlsServer) -> str:
    """How many streams the server has opened, by its own count."""
    pipeline = PipelineServer(
        server.url, credentials=Credentials(api_key=server.admin, ca_file=str(server.authority.file))
    )
    text = pipeline.content("/v1/metrics").decode()
    pipeline.close()
    return next(line for line in text.splitlines() if line.startswith("driftq_streams_total"))


@pytest.mark.clause("Y5")
def test_mutual_tls_lets_in_only_clients_with_a_certificate(mutual: TlsServer, tmp_path: Path) -> None:
    ca_file = str(mutual.authority.file)
    cert, key = mutual.authority.sign("client")
    foreign, foreign_key = Authority(tmp_path / "foreign").sign("client")
    with driftq.Client(
        mutual.url, api_key=mutual.admin, ca_file=ca_file, client_cert=str(cert), client_key=str(key)
    ) as client:
        assert client.topics() == []
    credentials = Credentials(
        api_key=mutual.admin, ca_file=ca_file, client_cert=str(cert), client_key=str(key)
    )
    pipeline = PipelineServer(mutual.url, credentials=credentials)
    assert pipeline.content("/v1/topics") == b'{"topics":[]}'
    pipeline.close()
    for shown, its_key in ((None, None), (str(foreign), str(foreign_key))):
        client = driftq.Client(
            mutual.url,
            timeout_s=1,
            api_key=mutual.admin,
            ca_file=ca_file,
            client_cert=shown,
            client_key=its_key,
        )
        with client, pytest.raises(ServerUnreachable):
            client.topics()
    without_key = driftq.Client(mutual.url, ca_file=ca_file, client_cert=str(cert), client_key=str(key))
    with without_key, pytest.raises(driftq.errors.KeyMissing):
        without_key.topics()
