"""Read and write rows of the table `burst` as Parquet files, sorted by path; reading verifies checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from django.contrib.postgres.fields import ArrayField
from django.db import models

from monitor.archive.models import Burst
from probes.private_files import OWNER_ONLY, replace_privately, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

# Rows compressed together, and read together to find the rows of a path.
ROWS_OF_GROUP = 20_000
READ_BYTES = 1 << 20
INSTALL = "pip install 'soundings[cold]'"


class ColdFileError(Exception):
    """Files of old bursts cannot be used; the message has the reason and a fix."""


class ColdFolder:
    """Folder or bucket of the files. Raises `ColdFileError`."""

    def __init__(self, text: str) -> None:
        if "@" in text and "://" in text:
            raise ColdFileError(
                "SOUNDINGS_COLD_BURSTS: no password in the URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        try:
            from pyarrow import ArrowException, fs
        except ImportError as error:
            raise ColdFileError(f"SOUNDINGS_COLD_BURSTS={text}: needs pyarrow; {INSTALL}") from error
        self._filesystem: fs.FileSystem
        self.is_local = "://" not in text
        try:
            if self.is_local:
                self._filesystem, self._base = fs.LocalFileSystem(), str(Path(text).resolve())
            else:
                self._filesystem, self._base = fs.FileSystem.from_uri(text)
        except (ArrowException, OSError, ValueError) as error:
            raise ColdFileError(f"SOUNDINGS_COLD_BURSTS={text}: {error}") from error

    def path(self, name: str) -> str:
        return f"{self._base}/{name}"

    @contextmanager
    def writing(self, name: str) -> Iterator[_Writer]:
        """Write a file, named only when complete and synced to disk."""
        path = self.path(name)
        with self._reported(name), _private_file(Path(path)) if self.is_local else self._object(path) as stream:
            writer = _Writer(stream)
            yield writer
            writer.close()

    def digest(self, name: str) -> tuple[str, int]:
        """SHA-256 and size in bytes of a stored file."""
        digest, size_bytes = hashlib.sha256(), 0
        with self._reported(name), self._filesystem.open_input_stream(self.path(name)) as stream:
            while block := stream.read(READ_BYTES):
                digest.update(block)
                size_bytes += len(block)
        return digest.hexdigest(), size_bytes

    def bursts(self, name: str, path_id: int, since: datetime, until: datetime) -> list[dict[str, Any]]:
        """Rows of a path that began in [since, until)."""
        from pyarrow import parquet

        period = [("path_id", "=", path_id), ("measured_at", ">=", since), ("measured_at", "<", until)]
        with self._reported(name):
            table = parquet.read_table(
                self.path(name), filesystem=self._filesystem, filters=period, page_checksum_verification=True
            )
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._reported(name):
            try:
                self._filesystem.delete_file(self.path(name))
            except FileNotFoundError:
                return

    def _object(self, path: str) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._filesystem.open_output_stream(path)
        return stream

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except (ArrowException, OSError) as error:
            raise ColdFileError(f"{self.path(name)}: {str(error).splitlines()[0]}") from error


class _Writer:
    def __init__(self, stream: Any) -> None:
        from pyarrow import parquet

        names = [name for name in schema().names if name != "rtts_ms"]
        self._file = parquet.ParquetWriter(
            stream,
            schema(),
            compression="zstd",
            compression_level=9,
            use_dictionary=[name for name in names if name not in ("measured_at", "loaded_rtts_ms")],
            column_encoding={"rtts_ms.list.element": "BYTE_STREAM_SPLIT", "measured_at": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        )

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        import pyarrow as pa

        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema().types, strict=True)]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=schema()), row_group_size=ROWS_OF_GROUP)

    def close(self) -> None:
        self._file.close()


@cache
def schema() -> pa.Schema:
    """Columns of the table `burst`, in their order."""
    import pyarrow as pa

    types: Mapping[type[models.Field[Any, Any]], pa.DataType] = {
        models.SmallIntegerField: pa.int16(),
        models.IntegerField: pa.int32(),
        models.BooleanField: pa.bool_(),
        models.DateTimeField: pa.timestamp("us", "UTC"),
        models.TextField: pa.string(),
        models.GenericIPAddressField: pa.string(),
        models.JSONField: pa.string(),
        ArrayField: pa.list_(pa.float32()),
    }
    return pa.schema([(field.attname, types[type(field)]) for field in _fields()])


def select_list() -> str:
    forms = {models.GenericIPAddressField: "host({})", models.JSONField: "{}::text"}
    return ", ".join(forms.get(type(field), "{}").format(field.attname) for field in _fields())


def _fields() -> list[models.Field[Any, Any]]:
    return list(Burst._meta.concrete_fields)


@contextmanager
def _private_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file readable only by its owner, synced to disk."""
    for folder in reversed(path.parents):
        folder.mkdir(mode=OWNER_ONLY, exist_ok=True)
    with replace_privately(path, Path(f"{path}.part")) as file:
        yield file
    sync_folder(path.parent)
