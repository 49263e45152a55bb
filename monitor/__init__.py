"""The centre, a Django project: it plans, stores, summarises, shows and alerts, and never measures."""

from monitor.celery import app as celery_app

__all__ = ["celery_app"]
