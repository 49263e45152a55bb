"""The centre's Redis: its URL for Celery, and a client behind a circuit breaker.

Redis holds nothing essential, so calls never raise: after a failure they return None for `OPEN_S`. An outage costs one
timeout in that time, and one warning.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import redis
from django.conf import settings

SENTINEL_PORT = 26379
URL = re.compile(r"sentinel://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(\?(?P<query>[^#]*))?")
TIMEOUT_S = 0.25
# How long the circuit stays open after a failure.
OPEN_S = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    hosts: tuple[tuple[str, int], ...]
    master: str  # name of Redis's master
    database: int = 0
    password: str | None = None  # of Redis

    @classmethod
    def parse(cls, url: str) -> SentinelUrl | None:
        """Parse sentinel://[:password@]host:port,host:port/0?master=NAME; None for other schemes. Raises ValueError."""
        # Not by urlsplit, which takes no more than one host, and from Python 3.12 on no brackets within several.
        parts = URL.fullmatch(url)
        if parts is None:
            return None
        credentials, _, places = parts["authority"].rpartition("@")
        master = parse_qs(parts["query"] or "").get("master", [""])[0]
        # A scheme before each host lets IPv6 addresses in brackets be parsed.
        hosts = [urlsplit(f"sentinel://{place}") for place in places.split(",")]
        if not master or not all(host.hostname for host in hosts):
            raise ValueError("write sentinel://host:26379,host:26379/0?master=NAME")
        return cls(
            hosts=tuple((str(host.hostname), host.port or SENTINEL_PORT) for host in hosts),
            master=master,
            database=int((parts["path"] or "").strip("/") or 0),
            password=unquote(credentials.partition(":")[2]) or None,
        )

    @property
    def broker_url(self) -> str:
        """URL for Celery, which takes the master's name as an option."""
        credentials = "" if self.password is None else f":{quote(self.password, safe='')}@"
        places = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return ";".join(f"sentinel://{credentials}{place}/{self.database}" for place in places)


def connect(url: str, timeout_s: float) -> Any:
    """Create a client with timeouts on connecting and on each answer."""
    timeouts = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    sentinels = SentinelUrl.parse(url)
    if sentinels is None:
        return redis.Redis.from_url(url.replace("redis+socket://", "unix://", 1), **timeouts)
    of_master = {"db": sentinels.database, "password": sentinels.password, **timeouts}
    client: Any = redis.sentinel.Sentinel  # it has no types
    return client(sentinels.hosts, sentinel_kwargs=timeouts).master_for(sentinels.master, **of_master)


class RedisClient:
    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._client = connect(url, timeout_s)
        self._scripts: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._open_until = 0.0
        self._is_failing = False

    def command(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Run redis-py's method `name`; None without Redis."""
        return self._call(getattr(self._client, name), *arguments, **options)

    def script(self, text: str, keys: list[str], arguments: list[Any]) -> Any:
        """Run a Lua script; None without Redis."""
        if text not in self._scripts:
            self._scripts[text] = self._client.register_script(text)
        return self._call(self._scripts[text], keys=keys, args=arguments)

    def _call(self, call: Any, *arguments: Any, **options: Any) -> Any:
        if time.monotonic() < self._open_until:
            return None
        try:
            answer = call(*arguments, **options)
        except (redis.RedisError, OSError) as error:
            self._open(error)
            return None
        self._is_failing = False
        return answer

    def _open(self, error: Exception) -> None:
        with self._lock:
            was_failing, self._is_failing = self._is_failing, True
            self._open_until = time.monotonic() + OPEN_S
        if not was_failing:
            logger.warning(
                "Redis is unavailable (%s): no rate limits, no delivery counters, no queue length", type(error).__name__
            )


@lru_cache(maxsize=1)
def _client_of(url: str) -> RedisClient:
    return RedisClient(url)


def centre() -> RedisClient:
    return _client_of(settings.REDIS_URL)
