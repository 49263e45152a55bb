"""`python -m monitor`, installed as `soundings`: the commands of manage.py."""

from __future__ import annotations

import os
import sys

from monitor import command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    command_line.main(sys.argv)


if __name__ == "__main__":
    main()
