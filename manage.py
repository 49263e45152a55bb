#!/usr/bin/env python3
"""Django's commands for Soundings. `manage.py up` runs everything on one machine."""


def main() -> None:
    try:
        from monitor.__main__ import main as run
    except ImportError as error:
        raise SystemExit(
            f"manage.py: {error.name} is not installed here; run `make setup`, then `.venv/bin/python manage.py …`"
        ) from error
    run()


if __name__ == "__main__":
    main()
