"""SOUNDINGS_REDIS_URL with Sentinels: as our client and as Celery take it."""

import pytest

from monitor.redis_client import SentinelUrl


def test_a_url_names_sentinels_master_database_and_password():
    url = SentinelUrl.parse("sentinel://:p%40ss@redis-1:26379,[2001:db8::1],10.0.0.3:5000/2?master=soundings")

    assert url == SentinelUrl(
        hosts=(("redis-1", 26379), ("2001:db8::1", 26379), ("10.0.0.3", 5000)),
        master="soundings",
        database=2,
        password="p@ss",
    )
    assert url.broker_url == (
        "sentinel://:p%40ss@redis-1:26379/2;sentinel://:p%40ss@[2001:db8::1]:26379/2;sentinel://:p%40ss@10.0.0.3:5000/2"
    )


def test_another_url_names_no_sentinels():
    assert SentinelUrl.parse("redis://localhost:6379/0") is None


@pytest.mark.parametrize(
    "url", ["sentinel://redis-1:26379/0", "sentinel:///0?master=soundings", "sentinel://a,,b/0?master=soundings"]
)
def test_an_incomplete_url_is_an_error(url):
    with pytest.raises(ValueError, match=r"sentinel://host:26379"):
        SentinelUrl.parse(url)
