"""`python -m monitor` and the installed program `soundings`: the commands of manage.py.

Redis, PostgreSQL and the agents are found as with manage.py; where data is kept says `probes.data_folder`.
"""

from __future__ import annotations

import os
import sys

from monitor import command_line


def main() -> None:
    """Run the command line of this process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
    command_line.main(sys.argv)


if __name__ == "__main__":
    main()
