#!/usr/bin/env python3
"""Django's commands for Soundings. `manage.py up` runs everything on one machine."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    try:
        from monitor import command_line
    except ImportError as error:
        raise SystemExit(
            f"manage.py: {error.name} is not installed here; run `make setup`, then `.venv/bin/python manage.py …`"
        ) from error
    command_line.main(sys.argv)


if __name__ == "__main__":
    main()
