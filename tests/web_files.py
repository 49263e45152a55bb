"""The compressed static files and the chart bundle, made once for all tests and processes: three seconds of processor
time. Their names have the content's hash and the wheel's version, and they are written atomically."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).resolve().parents[1] / ".cache" / "test-web"


def share_web_files(data: Path) -> None:
    """Let a data folder use the files made for earlier tests."""
    SHARED.mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    (data / "web").symlink_to(SHARED)
