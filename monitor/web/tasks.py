"""Celery's entry to the pages; when it runs is in `monitor.celery`."""

from __future__ import annotations

from celery import shared_task
from django.contrib.sessions.backends.db import SessionStore


@shared_task(name="web.clear_sessions")
def clear_sessions() -> None:
    """Delete the sessions that are over."""
    SessionStore.clear_expired()
