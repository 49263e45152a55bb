"""Build the Go program of `go/` and exchange requests with it.

Go's caches and the program are under `.cache/`. Modules come from the proxy named by the environment (GOPROXY).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

SOURCE = Path(__file__).parent / "go"
MODULE = "github.com/grafana/grafana"
VERSION = re.search(rf"{MODULE} (v\S+)", (SOURCE / "go.mod").read_text())[1]  # type: ignore[index]
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "grafana"
PROGRAM = CACHE / "queries"
LEAST_GO = (1, 21)
PROCESSES = "2"


class PluginError(Exception):
    """The program cannot be built, or has ended; the message says why and how to fix it."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """Settings of the data source, as provisioned."""

    uid: str
    type: str
    url: str
    user: str
    password: str
    json_data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """The queries that Grafana sends together: of a panel, or a single query; an alert rule has expressions too."""

    since: datetime
    until: datetime
    interval_ms: int
    points: int
    models: Sequence[Mapping[str, Any]]
    expressions: Sequence[Mapping[str, Any]] = ()

    def line(self) -> str:
        queries = [
            {
                "refId": model["refId"],
                "intervalMs": self.interval_ms,
                "maxDataPoints": self.points,
                "model": {**model, "intervalMs": self.interval_ms, "maxDataPoints": self.points},
            }
            for model in self.models
        ]
        period = {"from": self.since.astimezone(UTC).isoformat(), "to": self.until.astimezone(UTC).isoformat()}
        expressions = [{"refId": model["refId"], "model": model} for model in self.expressions]
        return json.dumps({**period, "queries": queries, **({"expressions": expressions} if expressions else {})})


@dataclass(frozen=True, slots=True)
class Plugin:
    """The running program."""

    to_it: IO[str]
    from_it: IO[str]

    def answer(self, request: Request) -> dict[str, Any]:
        """Results by the letter of query or expression; if a rule cannot be evaluated, an error under each letter.

        Raises `PluginError` if the program has ended.
        """
        try:
            self.to_it.write(f"{request.line()}\n")
            self.to_it.flush()
        except BrokenPipeError as error:
            raise PluginError("the plugin's program ended; its message is above") from error
        line = self.from_it.readline()
        if not line:
            raise PluginError("the plugin's program ended; its message is above")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            return {model["refId"]: answer for model in (*request.models, *request.expressions)}
        results: dict[str, Any] = answer["results"]
        return results


def build() -> None:
    """Build the program; takes seconds if nothing changed, and many minutes the first time. Raises `PluginError`."""
    go = shutil.which("go") or next(iter(Path("/usr/local/go/bin").glob("go")), None)
    if go is None:
        raise PluginError(f"no Go: install Go {'.'.join(map(str, LEAST_GO))} or later, and see that go is on the PATH")
    if not any(shutil.which(compiler) for compiler in ("gcc", "clang")):
        raise PluginError("no C compiler: install gcc")
    CACHE.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "GOCACHE": str(CACHE / "build"),
        "GOMODCACHE": str(CACHE / "modules"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false -trimpath",
        "CGO_ENABLED": "1",  # expressions import Grafana's own database, which has SQLite in it
    }
    command = [str(go), "build", "-p", PROCESSES, "-o", str(PROGRAM), "."]
    done = subprocess.run(command, cwd=SOURCE, env=environment, check=False)
    if done.returncode != 0:
        raise PluginError("go build failed; its message is above")


@contextmanager
def running(source: DataSource) -> Iterator[Plugin]:
    """The program with a data source, which must have been built."""
    child = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(_settings(source)) + "\n")
        yield Plugin(child.stdin, child.stdout)
    finally:
        child.stdin.close()
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _settings(source: DataSource) -> dict[str, Any]:
    return {
        "uid": source.uid,
        "type": source.type,
        "url": source.url,
        "user": source.user,
        "password": source.password,
        "jsonData": dict(source.json_data),
    }
