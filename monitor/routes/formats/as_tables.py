"""Read files of AS ranges; the format is recognised by content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from monitor.routes.formats import libloc, mmdb
from monitor.routes.formats.range_lines import decode_lines, read_lines
from monitor.routes.formats.table_file import FileFault, TableContents
from monitor.routes.formats.unpacking import Member, SizeLimit, unpack_members
from monitor.routes.tables.building import RangeList

SUFFIXES = (".csv", ".tsv", ".mmdb", ".db")


def read_as_tables(paths: Sequence[Path]) -> TableContents:
    """Merge files. Raises `FileFault` with file and line."""
    files = read_members(paths, SUFFIXES)
    for file in files:
        contents = file.located(read_binary, file)
        if contents is not None:
            if len(files) > 1:
                raise FileFault(f"{file.name}: is a whole database; load it alone")
            return contents
    ranges = RangeList()
    for file in files:
        file.located(read_lines, decode_lines(file.content), ranges)
    if not len(ranges):
        raise FileFault(f"{files[0].name}: has no ranges; load a file with a range in each line, or a database")
    dates = [file.dated_at for file in files if file.dated_at is not None]
    names = ", ".join(Path(file.name).name for file in files)
    return TableContents(ranges.table(), names, "", min(dates, default=None))


def read_members(paths: Sequence[Path], suffixes: tuple[str, ...]) -> list[Member]:
    """Read files, which share a size limit. Raises `FileFault`."""
    limit = SizeLimit()
    members = []
    for path in paths:
        try:
            with path.open("rb") as file:
                content = limit.read(file)
                changed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except OSError as error:
            raise FileFault(f"{path}: {error.strerror}; give a readable file") from error
        except FileFault as fault:
            raise FileFault(f"{path}: {fault}") from fault
        members += unpack_members(path, content, changed_at, suffixes, limit)
    return members


def read_binary(file: Member) -> TableContents | None:
    """Return None for text."""
    if file.content.startswith(libloc.MAGIC):
        return libloc.read_libloc(file.content)
    if mmdb.MARKER in file.content[-mmdb.SEARCHED_BYTES :]:
        return mmdb.read_mmdb(file.content)
    return None
