"""Health checks of the centre's web server and Redis, for the supervisor."""

from __future__ import annotations

import socket
from pathlib import Path

import redis

from monitor.redis_client import connect

# Path of the web server's health endpoint (`monitor.wsgi`).
HEALTH = "/health"
REDIS_TIMEOUT_S = 5.0


def web_answers(path: Path, timeout_s: float) -> bool:
    """Whether the web server at a Unix socket answers a request, with any status."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout_s)
        try:
            client.connect(str(path))
            client.sendall(f"GET {HEALTH} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return client.recv(64).startswith(b"HTTP/1.")
        except OSError:
            return False


def redis_answers(broker_url: str) -> bool:
    """Whether the Redis at this Celery URL answers, errors included."""
    try:
        with connect(broker_url, REDIS_TIMEOUT_S) as client:
            client.ping()
    except (redis.AuthenticationError, redis.ResponseError):
        return True
    except (redis.RedisError, OSError):
        return False
    return True
