"""`python -m monitor`, installed as `soundings`: the commands of manage.py."""

from __future__ import annotations

import gc
import sys

from monitor import command_line


def main() -> None:
    # Nothing that a command loads becomes garbage: looking for some takes a fifth of its processor time.
    gc.disable()
    command_line.main(sys.argv)


if __name__ == "__main__":
    main()
