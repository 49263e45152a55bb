"""Faults planted on purpose, and what the alert rules find of them: `python -m tests.planted`.

`simulated` has many paths in arrays, `lab` real packets over emulated paths, `theory` how soon a test can find what.
All three go through the snapshot and the rules that run live.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
django.setup()
