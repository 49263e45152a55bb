"""Faults for which only a part of the affected paths has alarmed: checks that their cause is named, and never
another."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
django.setup()
