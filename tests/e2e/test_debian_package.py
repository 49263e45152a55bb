"""The agent's Debian package in folders of Debian 12 and 13: built with each release's Python, installed with apt,
upgraded from the version before, removed and purged. `make test-deb` runs it, as root; five minutes the first time.

No systemd runs in a folder: the service's file is checked by tests/unit/site/test_packaging.py, its start after joining
by tests/unit/site/test_service.py.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

import probes
from scripts import dist
from tests.e2e.stack import TOP
from tests.e2e.wheels import with_version

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
]
CACHE = TOP / ".cache"
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
BEFORE = "0.0.9"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Those of this machine, which may have a certificate authority of its own."""


def debootstrap(release: str) -> Path:
    """A folder with the release and what builds the package, made once."""
    folder = CACHE / f"debian-{release}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        CACHE.mkdir(exist_ok=True)
        include = "--include=python3,python3-venv,ca-certificates"
        subprocess.run(
            ["debootstrap", "--variant=minbase", include, release, str(part)], check=True, capture_output=True
        )
        part.rename(folder)
    return folder


@contextmanager
def mounted(folder: Path):
    """The kernel's file systems in a folder, which a package may look at."""
    places = ["dev", "proc"]
    for place in places:
        subprocess.run(["mount", "--bind", f"/{place}", str(folder / place)], check=True)
    try:
        yield
    finally:
        for place in reversed(places):
            subprocess.run(["umount", "--lazy", str(folder / place)], check=True)


def run(folder: Path, *command: str, fails: bool = False) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()
    }
    environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    environment |= {"DEBIAN_FRONTEND": "noninteractive", "PIP_CERT": CERTIFICATES}
    done = subprocess.run(
        ["chroot", str(folder), *command], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def built(folder: Path, wheel: Path) -> str:
    """Build the package in a folder of its release. Returns its path there."""
    work = folder / "work" / wheel.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in ("packaging", "scripts"):
        shutil.copytree(TOP / name, work / name)
    shutil.copy(TOP / "LICENSE", work)
    shutil.copy(wheel, work)
    for setting in map(Path, ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts", CERTIFICATES)):
        if setting.exists():
            shutil.copy(setting, folder / str(setting).lstrip("/"))
    inside = f"/work/{wheel.name}"
    run(folder, "bash", f"{inside}/scripts/deb.sh", f"{inside}/{wheel.name}", f"{inside}/dist")
    (package,) = (work / "dist").glob("*.deb")
    return f"{inside}/dist/{package.name}"


def files(folder: Path) -> set[str]:
    """What a package or its programs may leave behind."""
    return {
        str(path.relative_to(folder))
        for top in ("opt", "etc/soundings", "var/lib", "lib/systemd/system", "usr/bin", "usr/share/bash-completion")
        for path in (folder / top).rglob("*")
        if "dpkg" not in path.parts and "apt" not in path.parts and "python3" not in path.parts
    }


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The agent's wheels, of the version before and of today's."""
    (wheel,) = [
        file
        for file in dist.main(tmp_path_factory.mktemp("dist"))
        if file.name.startswith("soundings_agent") and file.suffix == ".whl"
    ]
    return with_version(wheel, BEFORE, tmp_path_factory.mktemp("older")), wheel


@pytest.mark.parametrize("release", PYTHONS)
def test_the_package_is_installed_upgraded_removed_and_purged(release, wheels):
    folder = debootstrap(release)
    with mounted(folder):
        run(folder, "apt-get", "update", "-qq")
        run(folder, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "iperf3", "iproute2")
        before = files(folder)
        older, newer = (built(folder, wheel) for wheel in wheels)

        run(folder, "apt-get", "install", "-y", "-qq", "--no-install-recommends", older)
        assert run(folder, "soundings-agent", "--version").strip() == f"soundings-agent {BEFORE}"
        (folder / "etc/soundings/limits.toml").write_text('[networks]\nallowed = ["127.0.0.0/8"]\n')
        data = folder / "var/lib/soundings-agent"
        data.mkdir()
        (data / "token").write_text("of this site")

        run(folder, "apt-get", "install", "-y", "-qq", "--no-install-recommends", newer)
        assert run(folder, "soundings-agent", "--version").strip() == f"soundings-agent {probes.__version__}"
        assert run(folder, "/opt/soundings-agent/bin/python", "--version").split()[1].startswith(PYTHONS[release])
        assert "127.0.0.1" in run(folder, "soundings-agent", "ping", "127.0.0.1", "-c", "1", "--json")
        assert "127.0.0.0/8" in run(folder, "soundings-agent", "limits")
        assert (data / "token").read_text() == "of this site"
        assert run(folder, "dpkg", "--verify", "soundings-agent").split() in (
            [],
            ["??5??????", "c", "/etc/soundings/limits.toml"],
        )

        run(folder, "apt-get", "remove", "-y", "-qq", "soundings-agent")
        assert (data / "token").exists()
        assert (folder / "etc/soundings/limits.toml").exists()
        run(folder, "apt-get", "purge", "-y", "-qq", "soundings-agent")

        assert files(folder) - before == set()
