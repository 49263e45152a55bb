"""The address of the centre: the port and the host that an agent connects to, IPv6 addresses in brackets too."""

import pytest

from probes.site.delivery.centre import Centre


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://[2001:db8::1]", "2001:db8::1", 443),
        ("https://[2001:db8::1]:8443/soundings", "2001:db8::1", 8443),
        ("http://[::1]", "::1", 80),
        ("http://[::1]:8000", "::1", 8000),
        ("http://127.0.0.1:8000", "127.0.0.1", 8000),
        ("https://centre.example.org", "centre.example.org", 443),
    ],
)
def test_host_and_port_are_those_of_the_url(url, host, port):
    connection = Centre._connect(url, 1.0)

    assert (connection.host, connection.port) == (host, port)
