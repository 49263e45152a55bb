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
        from monitor.database_errors import unusable

        raise SystemExit(f"manage.py: {unusable(error)}") from error


if __name__ == "__main__":
    main()
