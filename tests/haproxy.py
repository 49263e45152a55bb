"""haproxy with packaging/haproxy.cfg in front of web servers on loopback, over plain HTTP."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.centre import answers, free_port
from tests.e2e.stack import TOP, wait_for


def haproxy_program() -> str | None:
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")


def configuration(port: int, ports: Sequence[int]) -> str:
    """The packaged configuration with these ports."""
    text = (TOP / "packaging" / "haproxy.cfg").read_text()
    text = re.sub(r"bind :443 ssl .*", f"bind 127.0.0.1:{port}", text)
    text = re.sub(r"\n    server .*", "", text.rstrip())
    return text + "".join(f"\n    server front-{place} 127.0.0.1:{each}" for place, each in enumerate(ports, 1)) + "\n"


@contextmanager
def haproxy(folder: Path, ports: Sequence[int]) -> Iterator[int]:
    """Run it before the web servers at `ports`; yields its own port."""
    port = free_port()
    file = folder / "haproxy.cfg"
    file.write_text(configuration(port, ports))
    with (folder / "haproxy.log").open("ab") as log:
        process = subprocess.Popen([str(haproxy_program()), "-f", str(file)], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: answers(port) or process.poll() is not None, 30, "haproxy answers")
        assert process.poll() is None, (folder / "haproxy.log").read_text()
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)
