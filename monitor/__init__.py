"""The centre, a Django project: it plans, stores, summarises, shows and alerts, and never measures."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
