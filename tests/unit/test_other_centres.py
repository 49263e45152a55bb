"""SOUNDINGS_OTHER_CENTRES is read as documented, and an error says which entry without its token."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from monitor.centres.configured import OtherCentre, read

SECRET = "s3cretToken"


def test_names_addresses_and_tokens():
    entries = [
        f"europe=https://{SECRET}@soundings.example.eu/",
        "asia=https://[2001:db8::7]:8443/net/",
        "lab=http://localhost:8001",
    ]

    assert read(entries, allow_plain_http=False) == (
        OtherCentre("europe", "https://soundings.example.eu", SECRET),
        OtherCentre("asia", "https://[2001:db8::7]:8443/net", ""),
        OtherCentre("lab", "http://localhost:8001", ""),
    )


def test_plain_http_only_where_it_is_allowed():
    entry = f"europe=http://{SECRET}@10.0.0.7:8000"

    assert read([entry], allow_plain_http=True)[0].url == "http://10.0.0.7:8000"
    with pytest.raises(ImproperlyConfigured, match="europe: over http anyone on the way reads the token"):
        read([entry], allow_plain_http=False)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (f"https://{SECRET}@host", "write NAME="),
        (f"eu=ftp://{SECRET}@host", "write NAME="),
        (f"eu=https://{SECRET}@", "write NAME="),
        (f"eu=https://{SECRET}@host:99999", "write NAME="),
        (f"a b=https://{SECRET}@host", "write NAME="),
        (f"eu=https://user:{SECRET}@host", "neither a password nor a query"),
        (f"eu=https://host/?token={SECRET}", "neither a password nor a query"),
        (f"eu=https://{SECRET}%20x@host", "no token of a user"),
        (f"first=https://{SECRET}@host", "first is named twice"),
    ],
)  # fmt: skip
def test_an_error_names_the_entry_and_not_its_token(entry, says):
    with pytest.raises(ImproperlyConfigured) as raised:
        read(["first=https://host", entry], allow_plain_http=False)

    assert "SOUNDINGS_OTHER_CENTRES, entry 2" in str(raised.value)
    assert says in str(raised.value)
    assert SECRET not in str(raised.value)
