"""Static files under content-hashed names, compressed, so that browsers may cache them for ever.

The first process writes them to the data folder, so pages never name another release's files; else plain names are
served. Earlier files stay, for open pages.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import AppDirectoriesFinder, BaseFinder
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.files.storage import FileSystemStorage
from whitenoise.compress import Compressor  # type: ignore[import-untyped]

HASH_DIGITS = 12
log = logging.getLogger(__name__)


class HashedStaticFiles(StaticFilesStorage):
    """Hash file names, except while debugging, when files change."""

    def url(self, name: str | None) -> str:
        hashed = {} if settings.DEBUG or name is None else hashed_names(_folder())
        return super().url(hashed.get(name or "", name))


class HashedFinder(BaseFinder):
    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        place = _folder() / path
        is_within = place.resolve().is_relative_to(_folder().resolve())
        matches = [str(place)] if is_within and place.is_file() else []
        return matches if find_all else next(iter(matches), None)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        folder = _folder()
        hashed_names(folder)
        storage = FileSystemStorage(location=folder)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield str(path.relative_to(folder)), storage


@cache
def hashed_names(folder: Path) -> dict[str, str]:
    """Write all files to `folder`; return no names if that is impossible."""
    names = {}
    try:
        for name, storage in AppDirectoriesFinder().list(None):
            content = Path(storage.path(name)).read_bytes()
            place = PurePosixPath(name)
            digest = hashlib.sha256(content).hexdigest()[:HASH_DIGITS]
            names[name] = str(place.with_name(f"{place.stem}.{digest}{place.suffix}"))
            _write(folder / names[name], content)
    except OSError as error:
        log.warning("static files stay uncompressed, since %s cannot be written: %s", folder, error)
        return {}
    return names


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "web" / "static"


def _write(place: Path, content: bytes) -> None:
    """Write a file and its compressed variants."""
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.parent, prefix=".") as workshop:
        whole = Path(workshop) / place.name
        whole.write_bytes(content)
        variants = Compressor(quiet=True).compress(str(whole))
        # The file goes last: where it is present, all of it is.
        for path in (*variants, str(whole)):
            Path(path).replace(place.with_name(Path(path).name))
