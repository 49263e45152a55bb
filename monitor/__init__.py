"""The centre: a Django project of small apps. It plans, stores, summarises, shows and alarms; it never measures."""

from monitor.celery import app as celery_app

__all__ = ["celery_app"]
