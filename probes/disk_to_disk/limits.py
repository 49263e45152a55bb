"""Table [disk] of limits.toml: limits on the files of disk-to-disk tests."""

from __future__ import annotations

from typing import Annotated

import msgspec

from probes.limit_keys import Number
from probes.toml.keys import meaning, must_be


class DiskLimits(msgspec.Struct, frozen=True, kw_only=True):
    folder: Annotated[
        str,
        must_be("an absolute path", "(?s:|/.*)"),
        meaning("folder for the files of disk-to-disk tests, which need it"),
    ] = ""
    max_file_bytes: Annotated[Number, meaning("maximum size of such a file")] = 1e9
    min_free_bytes: Annotated[Number, meaning("minimum left free on its file system")] = 1e9

    def forbids_file(self, file_bytes: int) -> str | None:
        """The exceeded limit as a sentence, or None."""
        if not self.folder:
            return "disk.folder: this site names none, so that no file may be written"
        if file_bytes <= self.max_file_bytes:
            return None
        return f"disk.max_file_bytes: {file_bytes:,} wanted, {self.max_file_bytes:,.0f} allowed"

    def forbids_room(self, file_bytes: int, free_bytes: int) -> str | None:
        """The exceeded limit on free space as a sentence, or None."""
        left_bytes = free_bytes - file_bytes
        if left_bytes >= self.min_free_bytes:
            return None
        return (
            f"disk.min_free_bytes: a file of {file_bytes:,} would leave {max(0, left_bytes):,} of {free_bytes:,} bytes"
            f" in {self.folder}, {self.min_free_bytes:,.0f} asked"
        )
