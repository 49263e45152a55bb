"""Decompress files and unpack archives: gz, xz, zst, zip, tar, by content."""

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

# For all files loaded together, packed and unpacked, since they are in memory; the largest tables have under half.
LARGEST_BYTES = 256 << 20
MOST_MEMBERS = 1000
_ZIP_ENTRY = b"PK\x01\x02"
# A file that is compressed more often may unpack to itself for ever.
MOST_LAYERS = 3
# Errors of the unpacking libraries for bytes that are no archive.
_DAMAGED = (
    OSError, EOFError, ValueError, IndexError, OverflowError, struct.error,
    lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError,
)  # fmt: skip

# Earlier dates are no dates: files in npm packages are of 1985, empty dates in zip of 1980.
OLDEST = datetime(2000, 1, 1, tzinfo=UTC)

# Such files in packages repeat another file, with addresses as decimal numbers.
ADDRESSES_AS_NUMBERS = "-num.csv"


@dataclass(frozen=True, slots=True)
class Member:
    """A file, or a file in an archive, decompressed."""

    name: str
    content: bytes
    dated_at: datetime | None  # time of its last change

    def located(self, read: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call `read`; add this file's name to its `FileFault`."""
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
        """Raises `FileFault` beyond the limit."""
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
    """The file, or an archive's files with these suffixes. Raises `FileFault`."""
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
