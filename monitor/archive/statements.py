"""The SQL of this room: one statement a file in sql/, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "sql"


@cache
def statement(name: str, **parts: str) -> str:
    """The text of sql/`name`.sql, with psycopg's named parameters in it; {name} in it becomes the part of that name."""
    text = (FOLDER / f"{name}.sql").read_text()
    return text.format(**parts) if parts else text
