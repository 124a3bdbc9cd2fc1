"""Certificates for tests, made by the openssl program: a CA, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.file = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        subject = ["-subj", f"/CN=test {name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        _openssl(
            "req",
            "-x509",
            *_NEW_KEY,
            "-keyout",
            str(self._key),
            "-out",
            str(self.file),
            "-days",
            "2",
            *subject,
        )

    def sign(self, name: str, *, hosts: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """A certificate and its key."""
        cert, key, wish = (self._folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        _openssl("req", *_NEW_KEY, "-keyout", str(key), "-out", str(wish), "-subj", f"/CN={name}")
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\nbasicConstraints=CA:FALSE\n")
        signer = ["-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial", "-days", "2"]
        _openssl("x509", "-req", "-in", str(wish), *signer, "-extfile", str(extensions), "-out", str(cert))
        return cert, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
