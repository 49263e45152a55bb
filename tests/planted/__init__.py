"""Planted faults, and their detection by the alert rules: `python -m tests.scored planted`.

`simulated` has many paths in arrays, `lab` real packets over emulated paths, `theory` the minimum detection time of a
test. All three use the snapshot and the live rules.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
django.setup()
