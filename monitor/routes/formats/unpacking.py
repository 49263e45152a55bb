"""Decompress files and unpack archives: gz, xz, zst, zip and tar, recognised by content."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import zstandard

from monitor.routes.formats.table_file import FileFault, date_of

ResultT = TypeVar("ResultT")

LARGEST_BYTES = 256 << 20
"""Limit of all files that are loaded together, packed and unpacked: they are read into memory. The largest tables have
less than half of it."""
MOST_MEMBERS = 1000
_ZIP_ENTRY = b"PK\x01\x02"
MOST_LAYERS = 3
"""A file that is compressed more often may unpack to itself for ever."""
_DAMAGED = (
    OSError, EOFError, ValueError, IndexError, OverflowError, struct.error,
    lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError,
)  # fmt: skip
"""Errors of the libraries that unpack, for bytes that are no archive."""

OLDEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Files that are dated before have no date: those in packages of npm are of 1985, empty dates in zip of 1980."""

ADDRESSES_AS_NUMBERS = "-num.csv"
"""Ending of files in packages that repeat another file, with addresses as decimal numbers."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file, or a file in an archive, decompressed. `dated_at` is the time of its last change."""

    name: str
    content: bytes
    dated_at: datetime | None

    def located(self, read: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Result of `read`, whose `FileFault` gets the name of this file."""
        try:
            return read(*arguments)
        except FileFault as fault:
            line = "" if fault.line is None else f"{fault.line}:"
            raise FileFault(f"{self.name}:{line} {fault.message}") from fault


class SizeLimit:
    """Bytes that may still be read, shared by all files of a table."""

    def __init__(self) -> None:
        self._left_bytes = LARGEST_BYTES

    def read(self, file: IO[bytes]) -> bytes:
        """All of `file`. Raises `FileFault` beyond the limit."""
        content = file.read(self._left_bytes + 1)
        if len(content) > self._left_bytes:
            raise FileFault(
                f"all files together have more than {LARGEST_BYTES >> 20} MB when decompressed; "
                "load a table of IP ranges alone"
            )
        self._left_bytes -= len(content)
        return content


def unpack_members(
    path: Path, content: bytes, dated_at: datetime, suffixes: tuple[str, ...], limit: SizeLimit
) -> list[Member]:
    """The file itself, or those files of an archive with a name that ends so. Raises `FileFault`."""
    whole = Member(str(path), content, dated_at)
    return whole.located(_unpack, whole, suffixes, limit)


def _unpack(whole: Member, suffixes: tuple[str, ...], limit: SizeLimit) -> list[Member]:
    try:
        contents = list(_members(whole, suffixes, limit))
    except _DAMAGED:
        raise FileFault("the compressed file is incomplete; copy or download it again") from None
    except (RuntimeError, NotImplementedError):
        raise FileFault("the archive is encrypted or of an unknown kind; unpack it, and load the files in it") from None
    if not contents:
        raise FileFault(f"the archive has no file {' or '.join(suffixes)}; load the table itself")
    return contents


def _members(whole: Member, suffixes: tuple[str, ...], limit: SizeLimit) -> Iterator[Member]:
    name, content = whole.name, whole.content
    layers = 0
    while opened := next((opened for magic, opened in _COMPRESSED.items() if content.startswith(magic)), None):
        layers += 1
        if layers > MOST_LAYERS:
            raise FileFault(
                f"the file is compressed more than {MOST_LAYERS} times; unpack it, and load the files in it"
            )
        with opened(io.BytesIO(content)) as file:
            content = limit.read(file)
        name = name.rpartition(".")[0] or name
    if content.startswith(b"PK\x03\x04"):
        yield from _of_zip(content, suffixes, limit)
    elif content[257:262] == b"ustar":
        yield from _of_tar(content, suffixes, limit)
    else:
        yield Member(name, content, _plausible(whole.dated_at))


def _of_zip(content: bytes, suffixes: tuple[str, ...], limit: SizeLimit) -> Iterator[Member]:
    # Before the directory is read, since each of its entries takes ten times its bytes.
    _require_few(content.count(_ZIP_ENTRY))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            if _is_table(info.filename, suffixes):
                with archive.open(info) as file:
                    yield Member(info.filename, limit.read(file), _zip_date(info))


def _of_tar(content: bytes, suffixes: tuple[str, ...], limit: SizeLimit) -> Iterator[Member]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for count, info in enumerate(archive, 1):
            _require_few(count)
            file = archive.extractfile(info) if info.isfile() and _is_table(info.name, suffixes) else None
            if file is not None:
                yield Member(info.name, limit.read(file), _plausible(date_of(info.mtime)))


def _require_few(members: int) -> None:
    if members > MOST_MEMBERS:
        raise FileFault(f"the archive has more than {MOST_MEMBERS} files; unpack it, and load the table itself")


def _zip_date(info: zipfile.ZipInfo) -> datetime | None:
    """Time of the last change; None where its digits are no date, as the month 0 of an empty one."""
    try:
        return _plausible(datetime(*info.date_time, tzinfo=UTC))
    except ValueError:
        return None


def _plausible(written_at: datetime | None) -> datetime | None:
    return written_at if written_at is not None and written_at > OLDEST else None


def _is_table(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.endswith(suffixes) and not name.endswith(ADDRESSES_AS_NUMBERS)


_COMPRESSED: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": zstandard.ZstdDecompressor().stream_reader,
}
