#!/usr/bin/env python3
"""Django's commands for Soundings. `manage.py up` runs everything on one machine."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            f"manage.py: {error.name} is not installed here; run `make setup`, then `.venv/bin/python manage.py …`"
        ) from error
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        raise SystemExit(
            f"manage.py: the database does not answer: {str(error).strip()}\n"
            "Start it with `manage.py up` (in another terminal, with the same SOUNDINGS_DATA), or name yours in "
            "SOUNDINGS_DATABASE_URL."
        ) from error


if __name__ == "__main__":
    main()
