"""The repository's files on an engine: commands of Compose, and queries of its containers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compose.bases import ROOT
from tests.compose.engine import CommandError, Engine

HERE = Path(__file__).parent
NAME = "soundings.example.org"
PORT, TLS_PORT, REDIRECT_PORT = 18000, 18443, 18080
GATEWAY = "172.31.254.1"
PUBLIC_URL = f"https://{NAME}:{TLS_PORT}"
WAIT_S = 240.0

SETTINGS = {
    "COMPOSE_PROFILES": "agent,grafana,tls",
    "SOUNDINGS_MESH": "./tests/compose/mesh.toml",
    "SOUNDINGS_PORT": str(PORT),
    "SOUNDINGS_TLS_BIND": GATEWAY,
    "SOUNDINGS_TLS_PORT": str(TLS_PORT),
    "SOUNDINGS_REDIRECT_PORT": str(REDIRECT_PORT),
    "SOUNDINGS_ALLOWED_HOSTS": NAME,
    "SOUNDINGS_PUBLIC_URL": PUBLIC_URL,
    "SOUNDINGS_GRAFANA_URL": f"{PUBLIC_URL}/grafana",
    "SOUNDINGS_PUBLIC_READ": "0",
    "SOUNDINGS_ALLOW_PLAIN_HTTP": "0",
    "SOUNDINGS_TRUSTED_PROXIES": GATEWAY,
}
"""As docs/compose.md says for production, on ports that are likely free."""


@dataclass(slots=True)
class Stack:
    """docker-compose.yml of the tree `root` as a separate project; `folder` has its certificates and settings."""

    engine: Engine
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    root: Path = ROOT
    project: str = "soundings-test"

    def prepare(self) -> None:
        """Write certificates and secrets, as an administrator provides them in files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        make_certificates(self.folder)
        (self.folder / "notify_urls").write_text("log://\nnight=mailto://night:hunter2@mail.example.org\n")
        (self.folder / "smtp_url").write_text("smtp+tls://soundings:hunter3@mail.example.org:587\n")
        for file in self.folder.iterdir():
            file.chmod(0o644 if file.name == "ca.pem" else 0o600)
        self.environment = {
            **SETTINGS,
            "SOUNDINGS_TLS_CERTIFICATE": str(self.folder / "centre.pem"),
            "SOUNDINGS_TLS_KEY": str(self.folder / "centre.key"),
            "SOUNDINGS_NOTIFY_URLS_FILE": str(self.folder / "notify_urls"),
            "SOUNDINGS_SMTP_URL_FILE": str(self.folder / "smtp_url"),
        }

    def compose(self, *words: str | Path, check: bool = True, stdin: bytes = b"", files: tuple[str, ...] = ()) -> str:
        """Run `docker compose` in the top folder; returns its output."""
        chosen = [word for file in ("docker-compose.yml", *files) for word in ("--file", file)]
        command = ["docker", "compose", "--project-name", self.project, *chosen, *words]
        return self.engine.run(*command, check=check, stdin=stdin, environment=self.environment, cwd=self.root)[1]

    def far(self, *words: str, check: bool = True) -> str:
        """Run `docker compose` with the files of the other site."""
        settings = self.folder / "agent.env"
        settings.write_text(f"SOUNDINGS_CA={self.folder}/ca.pem\nSOUNDINGS_LIMITS={self.root}/limits.compose.toml\n")
        files = ("--file", "packaging/agent.compose.yml", "--file", "tests/compose/far.yml")
        project = ("docker", "compose", "--project-name", f"{self.project}-far", "--env-file", str(settings))
        return self.engine.run(*project, *files, *words, check=check, cwd=self.root)[1]

    def up(self, *words: str) -> float:
        """`docker compose up --detach --wait`; returns its seconds."""
        started = time.monotonic()
        self.compose("up", "--detach", "--wait", *words)
        return time.monotonic() - started

    def containers(self, *, ended: bool = False) -> list[dict[str, Any]]:
        """The output of `docker inspect` for the running containers, or for those that ended."""
        state = "exited" if ended else "running"
        names = self.engine.run("docker", "ps", "--all", "--quiet", "--filter", f"status={state}")[1].split()
        inspected: list[dict[str, Any]] = json.loads(self.engine.run("docker", "inspect", *names)[1]) if names else []
        return inspected

    def container(self, service: str) -> dict[str, Any]:
        """The output of `docker inspect` for the first container of a service."""
        name = self.compose("ps", "--all", "--quiet", service).split()[0]
        answer: dict[str, Any] = json.loads(self.engine.run("docker", "inspect", name)[1])[0]
        return answer

    def shell(self, line: str) -> str:
        """Run a line of a document in a shell; returns its output."""
        return self.engine.run("sh", "-c", line, environment=self.environment, cwd=self.root)[1]

    def sql(self, query: str) -> str:
        """The database's answer to a query of its superuser."""
        return self.sql_as("postgres", query)

    def sql_as(self, role: str, query: str) -> str:
        words = ("psql", "--no-psqlrc", "--tuples-only", "--no-align", f"--username={role}", "--host=/run/postgresql")
        return self.compose("exec", "-T", "timescaledb", *words, f"--command={query}", "soundings").strip()

    def bursts(self, site: str) -> int:
        """Bursts with a reply, stored from the agent of a site."""
        return int(
            self.sql(
                "SELECT count(*) FROM burst JOIN path ON path.id = path_id "
                "JOIN host ON host.id = source_id JOIN site ON site.id = host.site_id "
                f"WHERE site.name = '{site}' AND received > 0"
            )
        )

    def new_bursts(self, site: str) -> float:
        """Wait for results that arrive from now on; returns the seconds."""
        before, started = self.bursts(site), time.monotonic()
        wait_for(lambda: self.bursts(site) > before, f"no results of {site}")
        return time.monotonic() - started


def name_of(container: dict[str, Any]) -> str:
    """The service of a container."""
    return str(container["Config"]["Labels"]["com.docker.compose.service"])


def wait_for(condition: Callable[[], bool], failure: str, timeout_s: float = WAIT_S) -> None:
    """Poll until the condition is true. Raises `CommandError` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return
        except CommandError as error:
            failure = f"{failure}: {error}"
        if time.monotonic() > deadline:
            raise CommandError(f"{failure} within {timeout_s:.0f} s")
        time.sleep(1)


def make_certificates(folder: Path) -> None:
    """An authority, and its certificate for the centre."""

    def openssl(*words: str | Path) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(
        "req",
        "-x509",
        *curve,
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        folder / "ca.key",
        "-out",
        folder / "ca.pem",
    )
    (folder / "names").write_text(f"subjectAltName=DNS:{NAME}\n")
    issue_certificate(folder)


def issue_certificate(folder: Path) -> None:
    """The authority's certificate for the centre, with a new key."""

    def openssl(*words: str | Path) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", *curve, "-subj", "/CN=centre", "-keyout", folder / "centre.key", "-out", folder / "centre.csr")
    openssl(
        *("x509", "-req", "-in", folder / "centre.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key"),
        *("-CAcreateserial", "-days", "2", "-extfile", folder / "names", "-out", folder / "centre.pem"),
    )
