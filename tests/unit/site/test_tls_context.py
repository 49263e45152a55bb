"""The TLS context of requests to the centre: kept, and made anew where the host's authorities have changed."""

import os
import subprocess

import pytest

from probes.site.delivery.tls import verifying_context


@pytest.fixture
def authority(tmp_path, monkeypatch):
    """A function that puts the only authority of this host, of some name, into its file."""
    file = tmp_path / "authorities.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))

    def install(name, modified_ns):
        words = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout /dev/null"
        subprocess.run(["openssl", *words.split(), "-out", str(file)], check=True, capture_output=True)
        os.utime(file, ns=(modified_ns, modified_ns))

    return install


def trusted():
    return [dict(pair for (pair,) in known["subject"])["commonName"] for known in verifying_context().get_ca_certs()]


def test_a_replaced_authority_is_trusted_from_the_next_request(authority):
    authority("old", 1)
    before = trusted()
    authority("new", 2)

    assert (before, trusted()) == (["old"], ["new"])


def test_authorities_are_parsed_once(authority):
    authority("old", 1)

    assert verifying_context() is verifying_context()
