"""Decompress files and unpack archives: gz, xz, zst, zip and tar, recognised by content."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import zstandard

from monitor.routes.formats.table_file import FileFault

ResultT = TypeVar("ResultT")

LARGEST_BYTES = 1 << 30
"""Decompressed files are read into memory; the largest tables have a tenth of this."""

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


def unpack_members(path: Path, content: bytes, dated_at: datetime, suffixes: tuple[str, ...]) -> list[Member]:
    """The file itself, or those files of an archive with a name that ends so. Raises `FileFault`."""
    whole = Member(str(path), content, dated_at)
    return whole.located(_unpack, whole, suffixes)


def _unpack(whole: Member, suffixes: tuple[str, ...]) -> list[Member]:
    try:
        contents = list(_members(whole.name, whole.content, whole.dated_at, suffixes))
    except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError):
        raise FileFault("the compressed file is incomplete; copy or download it again") from None
    except (RuntimeError, NotImplementedError):
        raise FileFault("the archive is encrypted or of an unknown kind; unpack it, and load the files in it") from None
    if not contents:
        raise FileFault(f"the archive has no file {' or '.join(suffixes)}; load the table itself")
    return contents


def _members(name: str, content: bytes, dated_at: datetime | None, suffixes: tuple[str, ...]) -> Iterator[Member]:
    for magic, opened in _COMPRESSED.items():
        if content.startswith(magic):
            with opened(io.BytesIO(content)) as file:
                unpacked = _limited(file)
            yield from _members(name.rpartition(".")[0] or name, unpacked, dated_at, suffixes)
            return
    if content.startswith(b"PK\x03\x04"):
        yield from _of_zip(content, suffixes)
    elif content[257:262] == b"ustar":
        yield from _of_tar(content, suffixes)
    else:
        yield Member(name, content, None if dated_at is None else _plausible(dated_at))


def _of_zip(content: bytes, suffixes: tuple[str, ...]) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            if _is_table(info.filename, suffixes):
                with archive.open(info) as file:
                    written_at = datetime(*info.date_time, tzinfo=UTC) if info.date_time[1] else OLDEST
                    yield Member(info.filename, _limited(file), _plausible(written_at))


def _of_tar(content: bytes, suffixes: tuple[str, ...]) -> Iterator[Member]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for info in archive:
            file = archive.extractfile(info) if info.isfile() and _is_table(info.name, suffixes) else None
            if file is not None:
                written_at = datetime.fromtimestamp(info.mtime, UTC)
                yield Member(info.name, _limited(file), _plausible(written_at))


def _plausible(written_at: datetime) -> datetime | None:
    return written_at if written_at > OLDEST else None


def _is_table(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.endswith(suffixes) and not name.endswith(ADDRESSES_AS_NUMBERS)


def _limited(file: IO[bytes]) -> bytes:
    content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise FileFault("the file has more than 1 GB when decompressed; load a table of IP ranges")
    return content


_COMPRESSED: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": zstandard.ZstdDecompressor().stream_reader,
}
