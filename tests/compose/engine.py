"""A separate Docker engine: data, socket and bridge apart from those of the machine.

In: a folder. Out: `Engine`, whose `run` starts Docker's client with it. Compose and Buildx come from the next Debian
release: those of Debian 12 are too old, and the newer binaries run here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

BRIDGE, BRIDGE_NETWORK = "soundings-test", "172.31.253.1/24"
PLUGINS = ("docker-compose", "docker-buildx")
POLICY = Path("/usr/sbin/policy-rc.d")
"""Asked by packages if they may start their services."""
IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
READY_S = 60.0
STOP_S = 60.0
COMMAND_S = 900.0


class CommandError(Exception):
    """A command failed; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Firewall:
    """Forwarding of the machine before the engine, which leaves its rules behind and forwarding closed to others."""

    forward_policy: str
    ip_forward: str
    has_engine: bool

    @classmethod
    def current(cls) -> Firewall:
        rules = subprocess.run(["iptables", "-S"], check=True, capture_output=True, text=True).stdout
        policy = next(line.split()[2] for line in rules.splitlines() if line.startswith("-P FORWARD"))
        return cls(policy, IP_FORWARD.read_text(), "-N DOCKER\n" in rules)

    def restore(self) -> None:
        """Remove the engine's rules, unless the machine has an engine of its own, which shares them."""
        if self.has_engine:
            return
        rules = subprocess.run(["iptables-save"], check=True, capture_output=True, text=True).stdout
        kept = [line for line in rules.splitlines() if "DOCKER" not in line and f" {BRIDGE} " not in f"{line} "]
        kept = [re.sub(r"^:FORWARD \w+", f":FORWARD {self.forward_policy}", line) for line in kept]
        subprocess.run(["iptables-restore"], check=True, input="\n".join([*kept, ""]), text=True)
        IP_FORWARD.write_text(self.ip_forward)


@dataclass(slots=True)
class Engine:
    """A running engine in `folder`. `log` gets every command with its output."""

    folder: Path
    daemon: subprocess.Popen[bytes] | None = field(default=None)
    firewall: Firewall | None = field(default=None)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DOCKER_HOST": f"unix://{self.folder}/docker.sock",
            "DOCKER_CONFIG": str(self.folder / "config"),
            "DOCKER_BUILDKIT": "1",
            "BUILDKIT_PROGRESS": "plain",
        }

    def start(self) -> None:
        """Start the engine on a bridge of its own. Raises `CommandError`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.firewall = Firewall.current()
        subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=False, capture_output=True)
        subprocess.run(["ip", "address", "replace", BRIDGE_NETWORK, "dev", BRIDGE], check=True)
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
        command = [
            *("dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec"),
            *("--pidfile", self.folder / "docker.pid", "--host", f"unix://{self.folder}/docker.sock"),
            *("--bridge", BRIDGE),
        ]
        with (self.folder / "dockerd.log").open("wb") as log:
            self.daemon = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_S
        while self.run("docker", "info", check=False)[0] != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise CommandError(f"dockerd did not start; see {self.folder}/dockerd.log")
            time.sleep(0.5)

    def stop(self) -> None:
        """Stop the engine with its containers, by its process id."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)
        if self.firewall is not None:
            self.firewall.restore()

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        stdin: bytes = b"",
        timeout_s: float = COMMAND_S,
        environment: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> tuple[int, str]:
        """Run a command on this engine; its status, and its output. Raises `CommandError` if it fails with `check`."""
        words = list(map(str, command))
        try:
            done = self._run(words, stdin, timeout_s, environment, cwd)
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{' '.join(words[:6])}: not done after {timeout_s:.0f} s") from error
        output = done.stdout.decode(errors="replace")
        with (self.folder / "commands.log").open("a") as log:
            log.write(f"$ {' '.join(words)}\n{output}[{done.returncode}]\n")
        if check and done.returncode != 0:
            raise CommandError(f"{' '.join(words[:6])}: {last_lines(output)}")
        return done.returncode, output

    def _run(
        self, words: list[str], stdin: bytes, timeout_s: float, environment: dict[str, str] | None, cwd: Path | None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            env={**self.environment, **(environment or {})},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            cwd=cwd,
        )


def last_lines(output: str, count: int = 12) -> str:
    return "\n".join(output.strip().splitlines()[-count:])


def install_engine() -> None:
    """Install Debian's engine and the programs used here if missing; the package must not start an engine itself."""
    programs = {"docker.io": "dockerd", "debootstrap": "debootstrap", "iproute2": "ip", "openssl": "openssl"}
    missing = [package for package, program in programs.items() if shutil.which(program) is None]
    if not missing:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    makes_policy = not POLICY.exists()
    if makes_policy:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            subprocess.run(["apt-get", "-qq", *words], check=True, env=environment, stdout=subprocess.DEVNULL)
    finally:
        if makes_policy:
            POLICY.unlink()


def install_plugins(config: Path, next_release: Path) -> None:
    """Copy Compose and Buildx of the next release, from the given tree, to the plugin folder of Docker's client."""
    target = config / "cli-plugins"
    if all((target / name).exists() for name in PLUGINS):
        return
    target.mkdir(parents=True, exist_ok=True)
    work = config.parent / "packages"
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "files"):
        (work / folder).mkdir(parents=True)
    sources = work / "sources.list"
    sources.write_text((next_release / "etc/apt/sources.list").read_text())
    apt: Sequence[str | Path] = [
        *("apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User=root"),
        *("-o", f"Dir::Etc::trustedparts={next_release}/etc/apt/trusted.gpg.d"),
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *PLUGINS], check=True, cwd=work / "files")
    for package in (work / "files").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, work / "tree"], check=True)
    for name in PLUGINS:
        (program,) = (work / "tree").rglob(f"cli-plugins/{name}")
        shutil.copy2(program, target / name)
    shutil.rmtree(work)
