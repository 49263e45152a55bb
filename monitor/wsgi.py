"""The WSGI application that gunicorn serves."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")

application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 (loads all views now, once for all workers, and not in the first request)

# What is there now stays: it is not looked through again for garbage whenever a page makes ten thousand objects.
gc.collect()
gc.freeze()
