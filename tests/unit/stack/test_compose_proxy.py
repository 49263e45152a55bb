"""The nginx of docker-compose.yml: the configuration that scripts/compose-proxy.sh writes, and Grafana behind it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.unit.test_compose import SERVICES

ROOT = Path(__file__).parents[3]
GRAFANA = SERVICES["grafana"]["environment"]


@pytest.fixture
def servers(tmp_path: Path):
    """Returns a function: the server blocks by what they listen on, for a mode and variables."""

    def run(mode: str, **variables: str) -> dict[str, str]:
        program = tmp_path / "nginx"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        for name in ("certificate", "key"):
            (tmp_path / name).write_text("-----BEGIN")
        script = (ROOT / "scripts/compose-proxy.sh").read_text()
        for folder in ("/run/soundings/proxy", "/run/soundings/web", "/tmp/proxy"):
            script = script.replace(folder, str(tmp_path))
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        subprocess.run(["sh", "-c", script, "compose-proxy.sh", mode], check=True, env=environment)
        blocks = re.findall(
            r"^    server \{.*?\n(.*?)^    \}", (tmp_path / "servers").read_text(), re.DOTALL | re.MULTILINE
        )
        return {re.search(r"listen (\S+?)(?: ssl)?;", block)[1].rpartition("/")[2]: block for block in blocks}

    return run


def locations(block: str) -> dict[str, str]:
    return dict(re.findall(r"location ([^{]+) \{\n(.*?)^        \}", block, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(("mode", "port", "scheme"), [("plain", "8000", "$forwarded_proto"), ("tls", "8443", "https")])
def test_grafana_is_behind_both_proxies_under_its_path(servers, mode: str, port: str, scheme: str) -> None:
    behind = locations(servers(mode)[port])
    path = urlsplit(GRAFANA["GF_SERVER_ROOT_URL"]).path

    assert "proxy_pass $centre;" in behind["/"]
    assert "proxy_pass $grafana;" in behind[path]
    assert f"X-Forwarded-Proto {scheme};" in behind[path]
    assert "Upgrade $http_upgrade;" in behind[path]
    assert behind[f"= {path.rstrip('/')}"].split() == ["return", "308", f"{path};"]


def test_grafana_is_served_under_the_path_of_the_pages_links() -> None:
    """Its own port is not published: HSTS of the pages forbids plain HTTP on every port of their host name."""
    links = SERVICES["web"]["environment"]["SOUNDINGS_GRAFANA_URL"]

    assert GRAFANA["GF_SERVER_ROOT_URL"] == f"{links}/"
    assert links.startswith(SERVICES["web"]["environment"]["SOUNDINGS_PUBLIC_URL"])
    assert GRAFANA["GF_SERVER_SERVE_FROM_SUB_PATH"] == "true"
    assert "ports" not in SERVICES["grafana"]
    assert SERVICES["grafana"]["healthcheck"]["test"][-1].endswith(f":3000{urlsplit(links).path}/api/health")
    assert "http://grafana:3000;" in (ROOT / "scripts/compose-proxy.sh").read_text()


def test_the_agents_socket_leads_to_the_centre_alone(servers) -> None:
    assert locations(servers("plain")["web.sock"]).keys() == {"/"}


def test_links_to_grafana_can_be_switched_off() -> None:
    """An empty value of ${NAME:-default} would be the default."""
    assert "${SOUNDINGS_GRAFANA_URL-http" in (ROOT / "docker-compose.yml").read_text()


@pytest.mark.parametrize(("variables", "suffix"), [({}, ""), ({"SOUNDINGS_TLS_PORT": "8443"}, ":8443")])
def test_plain_http_is_redirected_to_the_port_of_https(servers, variables: dict[str, str], suffix: str) -> None:
    assert f"return 308 https://$host{suffix}$request_uri;" in servers("tls", **variables)["8080"]
    assert SERVICES["tls"]["environment"]["SOUNDINGS_TLS_PORT"] == "443"


def test_no_variable_has_the_name_of_a_variable_of_nginx(servers, tmp_path: Path) -> None:
    """nginx does not start then; the names are those of its index of variables that could come to mind."""
    servers("plain")
    text = (tmp_path / "nginx.conf").read_text()
    built_in = {
        "connection",
        "host",
        "http_host",
        "proxy_host",
        "proxy_port",
        "remote_addr",
        "request_uri",
        "scheme",
        "uri",
    }

    defined = re.findall(r"^    (?:map|geo) .*?\$(\w+) \{", text, re.MULTILINE)

    assert "grafana" in defined
    assert set(defined) & built_in == set()
