"""docker-compose.yml checked against the project, since no container runs where the tests do.

Every command, variable, file, secret and image that it names must exist, and every file that the Dockerfile copies.
"""

from __future__ import annotations

import argparse
import importlib
import ipaddress
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml
from celery.app.utils import find_app
from celery.bin.base import CLIContext
from celery.bin.celery import celery as celery_command
from django.conf import settings
from django.core.management import get_commands, load_command_class
from gunicorn.config import Config
from gunicorn.util import import_app

import probes
from dashboards import __main__ as dashboards_command
from monitor.environment import VARIABLES
from monitor.mesh.document import reader
from monitor.stack.postgres import TUNING
from probes.commands.catalogue import COMMANDS as PROBES_COMMANDS
from probes.transfers.spec import ThroughputSpec

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# A variable in the compose file, as the Compose Specification interpolates it: ${NAME:-default},
# ${NAME-default} where an empty value counts, and $$ for a dollar.
INTERPOLATION = re.compile(r"\$\$|\$\{(?P<name>\w+):?-(?P<default>[^}]*)\}")

# The variables that other images document.
IMAGE_VARIABLES = {
    "timescale/timescaledb": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD_FILE", "TIMESCALEDB_TELEMETRY"},
    "grafana/grafana": {
        "GF_SERVER_ROOT_URL",
        "GF_SERVER_SERVE_FROM_SUB_PATH",
        "GF_SECURITY_ADMIN_PASSWORD__FILE",
        "GF_USERS_ALLOW_SIGN_UP",
        "GF_ANALYTICS_REPORTING_ENABLED",
        "GF_ANALYTICS_CHECK_FOR_UPDATES",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES",
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH",
    },
    "redis": set(),
    "nginx": {"SOUNDINGS_TRUSTED_PROXIES", "SOUNDINGS_TLS_PORT"},  # read by scripts/compose-proxy.sh
}
# Keys of a service and their types, by the Compose Specification; only those in use.
SERVICE_KEYS: dict[str, type | tuple[type, ...]] = {
    "build": str,
    "cap_add": list,
    "cap_drop": list,
    "command": list,
    "cpu_shares": int,
    "depends_on": dict,
    "entrypoint": list,
    "environment": dict,
    "healthcheck": dict,
    "image": str,
    "init": bool,
    "labels": dict,
    "logging": dict,
    "mem_limit": str,
    "network_mode": str,
    "networks": list,
    "pids_limit": int,
    "ports": list,
    "profiles": list,
    "pull_policy": str,
    "read_only": bool,
    "restart": str,
    "security_opt": list,
    "shm_size": str,
    "stop_grace_period": str,
    "sysctls": dict,
    "tmpfs": list,
    "user": str,
    "volumes": list,
}
DURATION = re.compile(r"(\d+h)?(\d+m)?(\d+s)?")


def interpolate(text: str) -> str:
    """The text with the defaults in place of the variables."""
    return INTERPOLATION.sub(lambda match: "$" if match["name"] is None else match["default"], text)


def interpolated(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: interpolated(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [interpolated(inner) for inner in value]
    return interpolate(value) if isinstance(value, str) else value


RAW = (ROOT / "docker-compose.yml").read_text()
COMPOSE = interpolated(yaml.safe_load(RAW))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("soundings:")}
every_service = pytest.mark.parametrize("name", SERVICES)
every_service_of_ours = pytest.mark.parametrize("name", OURS)


@every_service
def test_the_logs_of_a_container_are_bounded(name: str) -> None:
    """The default driver keeps all logs."""
    assert SERVICES[name]["logging"] == {"driver": "local", "options": {"max-size": "10m", "max-file": "3"}}


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of `volumes`: a named volume or a file of the repository, and its path in the container."""

    source: str
    target: PurePosixPath
    read_only: bool

    @property
    def is_file(self) -> bool:
        return self.source.startswith(("./", "/"))


def mounts(name: str) -> list[Mount]:
    volumes_written = []
    for line in SERVICES[name].get("volumes", []):
        source, target, *options = line.split(":")
        assert options in ([], ["ro"]), line
        volumes_written.append(Mount(source, PurePosixPath(target), options == ["ro"]))
    return volumes_written


def command_lines(name: str) -> Iterator[list[str]]:
    """The programs that a service starts; a shell script is split into its lines."""
    command = SERVICES[name].get("command", [])
    if SERVICES[name].get("entrypoint", [])[:1] == ["python"]:
        yield [*SERVICES[name]["entrypoint"], *command]
    elif command[:2] == ["sh", "-ec"]:
        for line in command[2].strip().splitlines():
            if not line.startswith("export "):
                yield shlex.split(line)
    elif command:
        yield command


def all_command_lines() -> list[tuple[str, list[str]]]:
    return [(name, line) for name in OURS for line in command_lines(name)]


# --- commands


@pytest.mark.parametrize(("name", "line"), all_command_lines(), ids=lambda part: part if isinstance(part, str) else "")
def test_every_command_exists_and_takes_its_arguments(name: str, line: list[str]) -> None:
    match line:
        case ["python", "manage.py", command, *arguments]:
            check_manage(command, arguments)
        case ["python", "-m", "probes", command, *arguments]:
            check_probes(command, arguments)
        case ["python", "-m", "dashboards", *arguments]:
            dashboards_command.parser().parse_args(arguments)
        case ["celery", "-A", app, command, *arguments]:
            check_celery(app, command, arguments)
        case ["gunicorn", *arguments]:
            check_gunicorn(arguments)
        case ["sh", script, *_]:
            assert f"COPY {script} " in DOCKERFILE
        case _:
            pytest.fail(f"{name}: unknown program: {line}")


def check_manage(command: str, arguments: list[str]) -> None:
    """Raises SystemExit or CommandError where the command's parser refuses the arguments."""
    application = get_commands()[command]
    load_command_class(application, command).create_parser("manage.py", command).parse_args(arguments)


def check_probes(command: str, arguments: list[str]) -> None:
    module_name, _ = PROBES_COMMANDS[command]
    parser = argparse.ArgumentParser()
    importlib.import_module(module_name).add_arguments(parser)
    parser.parse_args(arguments)


def check_celery(app: str, command: str, arguments: list[str]) -> None:
    parent = celery_command.make_context("celery", ["-A", app, command])
    context = CLIContext(app=find_app(app), no_color=True, workdir=None)
    celery_command.commands[command].make_context(command, list(arguments), parent=parent, obj=context)


def check_gunicorn(arguments: list[str]) -> None:
    parsed = Config().parser().parse_args(arguments)
    assert parsed.args == []
    settings = vars(importlib.import_module(parsed.config.removeprefix("python:")))
    config = Config()
    for name, value in settings.items():
        if not name.startswith("_"):
            config.set(name, value)
    assert callable(import_app(config.wsgi_app))
    assert config.worker_class.__name__ == "Worker"


def test_the_check_of_commands_detects_errors() -> None:
    with pytest.raises(KeyError):
        check_manage("migrait", [])
    with pytest.raises(Exception, match="--noinputt"):
        check_manage("migrate", ["--noinputt"])
    with pytest.raises(Exception, match="--poool"):
        check_celery("monitor", "worker", ["--poool=threads"])
    with pytest.raises(Exception, match="nothing_there"):
        check_gunicorn(["monitor.wsgi:nothing_there"])


def test_the_image_starts_the_web_server_in_the_same_way() -> None:
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    program, *arguments = yaml.safe_load(command)
    assert program == "gunicorn"
    check_gunicorn(arguments)


@every_service_of_ours
def test_a_health_check_in_python_or_celery_can_be_parsed(name: str) -> None:
    match SERVICES[name].get("healthcheck", {}).get("test"):
        case ["CMD", "python", "-c", code]:
            compile(code, "healthcheck", "exec")
        case ["CMD-SHELL", line] if line.startswith("celery "):
            _, _, app, command, *arguments = shlex.split(line)
            check_celery(app, command, arguments)
        case ["CMD-SHELL", line]:
            assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0
        case None:
            assert name in ("secrets", "migrate", "token", "admin"), (
                "only a service that ends by itself needs no health check"
            )
        case other:
            pytest.fail(f"unknown health check: {other}")


def test_existing_services_have_restart_and_health_check() -> None:
    assert SERVICES.keys() >= {"timescaledb", "redis", "grafana", "web", "worker", "beat", "migrate", "agent"}


# --- variables


@every_service_of_ours
def test_every_variable_of_our_image_is_read_by_the_settings(name: str) -> None:
    variables = VARIABLES.keys() | {f"{variable}_FILE" for variable in VARIABLES}
    assert SERVICES[name].get("environment", {}).keys() <= variables


# Variables that cannot be set in .env, and why.
NOT_PASSED_ON = {
    "SOUNDINGS_LOCAL_READ": "every request comes through a proxy, none from this machine itself",
    "SOUNDINGS_LAB_DIR": "the lab needs network namespaces of the machine",
    "SOUNDINGS_DEBUG": "never where others can reach it",
    "SOUNDINGS_READ_DATABASE_URL": "Compose has a single database",
    "SOUNDINGS_ACKNOWLEDGE": "Compose has a single database",
    "SOUNDINGS_COLD_BURSTS": "the image does not have pyarrow",
    "SOUNDINGS_COLD_BURSTS_DAYS": "likewise",
}


@pytest.mark.parametrize("name", ["web", "worker", "beat", "migrate", "admin"])
def test_compose_passes_on_every_variable_of_the_centre(name: str) -> None:
    passed_on = {variable.removesuffix("_FILE") for variable in SERVICES[name]["environment"]} | {
        "SOUNDINGS_PULSE_FILE"
    }

    assert VARIABLES.keys() - passed_on == NOT_PASSED_ON.keys()


@pytest.mark.parametrize("name", ["web", "worker", "beat", "migrate"])
def test_compose_sets_retention_to_the_defaults_of_the_settings(name: str) -> None:
    environment = SERVICES[name]["environment"]

    retention = {
        variable: environment[variable] for variable in VARIABLES if variable.startswith("SOUNDINGS_RETENTION_")
    }

    kinds = {
        variable.removeprefix("SOUNDINGS_RETENTION_").removesuffix("_DAYS").lower(): int(days)
        for variable, days in retention.items()
    }
    assert kinds == settings.RETENTION_DAYS


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - OURS.keys()))
def test_every_variable_of_another_image_is_documented_by_it(name: str) -> None:
    image_variables = IMAGE_VARIABLES[SERVICES[name]["image"].split(":")[0]]
    variables = SERVICES[name].get("environment", {}).keys()
    assert variables - image_variables == (provisioned_variables() if name == "grafana" else set())


def provisioned_variables() -> set[str]:
    """Variables in Grafana's provisioning files."""
    texts = [file.read_text() for file in (ROOT / "dashboards/provisioning").rglob("*.*")]
    values = [line.partition(" #")[0] for text in texts for line in text.splitlines() if not line.startswith("#")]
    return {text for value in values for text in re.findall(r"\$([A-Z]\w+)", value)}


def test_every_setting_is_in_the_example_with_its_default() -> None:
    example = dict(
        line.split("=", 1)
        for line in (ROOT / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    used = {(match["name"], match["default"]) for match in INTERPOLATION.finditer(RAW) if match["name"]}
    profiles = example.pop("COMPOSE_PROFILES").split(",")  # read by Compose itself
    assert set(example.items()) == used
    assert set(profiles) == {"agent", "grafana"}
    assert not re.search(r"\$(?!\$|\{\w+:?-)", RAW.replace("$$", "")), "every variable has a default"


# --- secrets


def secret_files() -> list[tuple[str, str]]:
    """Secret files by service: from its environment, its commands and Grafana's provisioning."""
    mentioned_files = [
        (name, value)
        for name, service in SERVICES.items()
        for variable, value in service.get("environment", {}).items()
        if variable.endswith("_FILE") and variable != "SOUNDINGS_PULSE_FILE"
    ]
    mentioned_files += [
        (name, line[-1]) for name, line in all_command_lines() if {"--password-file", "--superuser-url-file"} & {*line}
    ]
    mentioned_files += [("redis", word) for word in SERVICES["redis"]["command"] if word.startswith("/run/")]
    provisioning = (ROOT / "dashboards/provisioning/datasources/soundings.yaml").read_text()
    return mentioned_files + [("grafana", path) for path in re.findall(r"\$__file\{(.+?)\}", provisioning)]


@pytest.mark.parametrize(("name", "path"), secret_files())
def test_every_secret_that_is_read_is_created_and_mounted(name: str, path: str, secrets: Path) -> None:
    file = PurePosixPath(path)
    (mount,) = [mount for mount in mounts(name) if file.is_relative_to(mount.target)]
    (made_at,) = [other.target for other in mounts("secrets") if other.source == mount.source]

    assert mount.read_only
    made = secrets / made_at.relative_to("/secrets") / file.relative_to(mount.target)
    yours = {"notify_urls": 6, "smtp_url": 6, "oidc_client_secret": 0, "other_centres": 0}
    assert len(made.read_text()) >= yours.get(file.name, 64)
    assert made.stat().st_mode & 0o777 == (0o400 if made_at.name == "centre" else 0o644)


def test_existing_secrets_are_kept(secrets: Path) -> None:
    before = {file: file.read_text() for file in secrets.rglob("*") if file.is_file()}
    assert len(before) == 14
    assert len({text for text in before.values() if text.strip()}) == 12, "all differ; two of yours are empty"

    subprocess.run(["sh", ROOT / "scripts/compose-secrets.sh", secrets], check=True)

    assert {file: file.read_text() for file in secrets.rglob("*") if file.is_file()} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be the root of a container")
def test_secrets_are_kept_with_the_capabilities_of_their_service(tmp_path: Path) -> None:
    """A file that was given to another user cannot be changed with these, but is found as it should be."""
    capabilities = "".join(f",+{name.lower()}" for name in SERVICES["secrets"]["cap_add"])
    command = ["setpriv", "--bounding-set", f"-all{capabilities}", "sh", ROOT / "scripts/compose-secrets.sh", tmp_path]

    for _ in range(2):
        subprocess.run(command, check=True)

    assert {file.stat().st_uid for file in (tmp_path / "centre").iterdir()} == {10001}
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "centre").iterdir()} == {0o400}


def test_the_database_url_is_that_of_the_database_service(secrets: Path) -> None:
    url = urlsplit((secrets / "centre/database_url").read_text())
    environment = SERVICES["timescaledb"]["environment"]

    assert (url.scheme, url.hostname, url.port) == ("postgresql", "timescaledb", 5432)
    assert (url.username, url.path) == ("soundings", f"/{environment['POSTGRES_DB']}")
    assert url.password == (secrets / "centre/database_password").read_text()


def test_only_jobs_log_in_as_the_superuser_of_the_database(secrets: Path) -> None:
    url = urlsplit((secrets / "superuser/database_url").read_text())
    environment = SERVICES["timescaledb"]["environment"]
    readers = {name for name in SERVICES for mount in mounts(name) if mount.source == "superuser-secrets"}

    assert (url.username, url.path) == (environment["POSTGRES_USER"], f"/{environment['POSTGRES_DB']}")
    assert url.password == (secrets / "database/password").read_text()
    assert url.password not in (secrets / "centre/database_url").read_text()
    assert readers == {"secrets", "migrate", "admin"}


def test_secrets_in_own_files_take_precedence_over_variables(tmp_path: Path) -> None:
    source, created = tmp_path / "source", tmp_path / "created"
    source.mkdir()
    (source / "smtp_url").write_text("smtps://soundings:hunter2@mail.example.org")
    (source / "key").write_text("-----BEGIN PRIVATE KEY-----")
    environment = {
        "PATH": os.environ["PATH"],
        "SOUNDINGS_NOTIFY_URLS": "slack://a/b/c",
        "SOUNDINGS_SMTP_URL": "smtp://x",
    }

    subprocess.run(["sh", ROOT / "scripts/compose-secrets.sh", created, source], check=True, env=environment)

    assert "hunter2" in (created / "centre/smtp_url").read_text()
    assert (created / "centre/notify_urls").read_text().strip() == "slack://a/b/c"
    assert (created / "proxy/key").read_text() == (source / "key").read_text()


def test_the_databases_sort_memory_is_that_of_make_run() -> None:
    assert SERVICES["timescaledb"]["command"] == ["postgres", "-c", f"work_mem={TUNING['work_mem']}"]


def test_grafana_reads_the_same_database_as_its_role() -> None:
    from dashboards.reader import ROLE

    (source,) = yaml.safe_load((ROOT / "dashboards/provisioning/datasources/soundings.yaml").read_text())["datasources"]
    environment = SERVICES["grafana"]["environment"]

    assert source["user"] == ROLE
    assert environment[source["url"].removeprefix("$")] == "timescaledb:5432"
    database = environment[source["jsonData"]["database"].removeprefix("$")]
    assert database == SERVICES["timescaledb"]["environment"]["POSTGRES_DB"]


@every_service
def test_no_secret_is_written_in_the_compose_file(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        assert not re.search("PASSWORD|SECRET|TOKEN", variable) or variable.endswith("_FILE"), variable
        assert urlsplit(str(value)).password is None, variable


# --- files and images


@every_service
def test_every_mount_is_a_declared_volume_or_a_repository_file(name: str) -> None:
    for mount in mounts(name):
        if mount.is_file:
            assert (ROOT / mount.source).exists(), mount.source
            assert mount.read_only
        else:
            assert mount.source in COMPOSE["volumes"]


def test_every_declared_volume_is_used() -> None:
    used = {mount.source for name in SERVICES for mount in mounts(name) if not mount.is_file}
    assert COMPOSE["volumes"].keys() == used


def test_grafana_loads_the_dashboards_from_its_provisioning() -> None:
    (provider,) = yaml.safe_load((ROOT / "dashboards/provisioning/dashboards/soundings.yaml").read_text())["providers"]
    (mount,) = [mount for mount in mounts("grafana") if mount.source == "./dashboards/json"]
    home = PurePosixPath(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])

    assert provider["options"]["path"] == str(mount.target) == str(home.parent)
    assert (ROOT / "dashboards/json" / home.name).exists()


def images() -> list[str]:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    return sorted({*bases, *(SERVICES[name]["image"] for name in SERVICES.keys() - OURS.keys())})


@pytest.mark.parametrize("image", images())
def test_every_image_is_pinned_to_an_exact_version(image: str) -> None:
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+(-[\w.-]+)?(@sha256:[0-9a-f]{64})?", image)


# The oldest release of each line with the security fixes known on 2026-11-22.
OLDEST_IMAGES = {
    "redis": (7, 4, 11),
    "timescale/timescaledb": (2, 30, 2),
    "grafana/grafana": (12, 4, 12),
    "python": (3, 12, 14),
    "nginx": (1, 30, 5),
}


@pytest.mark.parametrize("image", images())
def test_every_image_has_the_security_fixes_of_its_line(image: str) -> None:
    name, _, tag = image.partition(":")
    assert tuple(map(int, tag.split("-")[0].split("."))) >= OLDEST_IMAGES[name]


def test_our_image_has_the_version_of_the_project() -> None:
    version = probes.__version__
    assert {service["image"] for service in OURS.values()} == {f"soundings:{version}"}
    for text in (DOCKERFILE, (ROOT / "packaging/agent.Dockerfile").read_text()):
        assert f"ARG VERSION={version}\n" in text
    assert f'default = "{version}"' in (ROOT / "docker-bake.hcl").read_text()
    assert (
        f"image: ${{SOUNDINGS_AGENT_IMAGE:-soundings-agent:{version}}}\n"
        in (ROOT / "packaging/agent.compose.yml").read_text()
    )


def test_our_image_is_built_by_a_single_service() -> None:
    assert [name for name, service in SERVICES.items() if "build" in service] == ["secrets"]
    assert {OURS[name]["pull_policy"] for name in OURS.keys() - {"secrets"}} == {"never"}


def copied() -> list[str]:
    lines = re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines if not line.startswith("--from=") for source in line.split()[:-1]]


@pytest.mark.parametrize("source", copied())
def test_files_copied_into_the_image_are_in_the_build_context(source: str) -> None:
    assert (ROOT / source).exists()
    assert f"!{source}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_image_installs_by_hash_and_runs_as_unprivileged() -> None:
    assert re.search(r"pip install [^\n]*--require-hashes -r needed\.txt", DOCKERFILE)
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["soundings"]
    assert {name for name in OURS if SERVICES[name].get("user", "").startswith("0")} == {"secrets"}


@every_service
def test_a_container_has_no_privileges_and_bounded_resources(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    # As root in new volumes, without a network, and for a moment.
    assert service.get("cap_add", []) == (["CHOWN", "DAC_READ_SEARCH"] if name == "secrets" else [])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert service["pids_limit"] > 0
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert all("size=" in place or place.startswith("/run/") for place in service["tmpfs"])


def test_folders_of_volumes_belong_to_the_user_of_the_image() -> None:
    (folders,) = re.findall(r"install -d -o soundings -g soundings -m 0750 ([/\w ]+)", DOCKERFILE)
    written = {
        str(mount.target)
        for name in OURS.keys() - {"secrets"}
        for mount in mounts(name)
        if not mount.is_file and not mount.read_only
    }
    assert set(folders.split()) == written


# --- the mesh and the agent


def test_the_mesh_of_compose_is_valid_with_an_agent_at_home() -> None:
    (source,) = [mount.source for mount in mounts("migrate") if mount.is_file]
    mesh = tomllib.loads((ROOT / source).read_text())
    reader.read(ROOT / source)

    (token,) = command_lines("token")
    assert mesh["mesh"]["home"] in token
    assert [site["name"] for site in mesh["site"] if site.get("agent", True)] == [mesh["mesh"]["home"]]
    assert {host["address"] for site in mesh["site"] for host in site["host"]} <= SERVICES.keys()


def test_the_agent_reaches_the_centre_by_a_socket_with_its_token() -> None:
    agent = dict(zip(*[iter(SERVICES["agent"]["command"][4:])] * 2, strict=True))
    (token,) = command_lines("token")
    made_at, read_at = (
        {mount.source: mount.target for mount in mounts(name)}["agent-token"] for name in ("token", "agent")
    )
    folders = {mount.target for name in ("agent", "proxy") for mount in mounts(name) if mount.source == "web-socket"}
    socket = urlsplit(agent["--centre"])

    assert socket.scheme == "unix"
    assert {PurePosixPath(socket.path).parent} == folders
    assert f"socket={socket.path}\n" in (ROOT / "scripts/compose-proxy.sh").read_text()
    assert PurePosixPath(agent["--token-file"]).is_relative_to(read_at)
    assert PurePosixPath(token[-1]).relative_to(made_at) == PurePosixPath(agent["--token-file"]).relative_to(read_at)


def test_an_ordinary_user_may_ping_in_the_agents_network() -> None:
    """The range of groups that may open ICMP datagram sockets; the image's group is within it."""
    first, last = map(int, SERVICES["agent"]["sysctls"]["net.ipv4.ping_group_range"].split())
    (group,) = map(int, re.findall(r"groupadd --gid (\d+)", DOCKERFILE))
    assert first <= group <= last


def test_the_port_of_throughput_tests_is_published_for_tcp_and_udp() -> None:
    (port,) = [field.default for field in msgspec.structs.fields(ThroughputSpec) if field.name == "port"]
    elsewhere = yaml.safe_load((ROOT / "packaging/agent.compose.yml").read_text())["services"]["agent"]
    for ports in (SERVICES["agent"]["ports"], interpolated(elsewhere["ports"])):
        assert [line.partition(":")[2] for line in ports] == [f"{port}:{port}", f"{port}:{port}/udp"]
    assert f"--publish {port}:{port} --publish {port}:{port}/udp" in (ROOT / "docs/agent.md").read_text()


# --- networks


def test_database_and_broker_have_no_way_out_and_no_agent() -> None:
    def members(network: str) -> set[str]:
        return {name for name, service in SERVICES.items() if network in service.get("networks", [])}

    assert {name for name, network in COMPOSE["networks"].items() if network.get("internal")} == {"backend", "front"}
    assert {SERVICES[name]["networks"][0] for name in ("timescaledb", "redis", "beat")} == {"backend"}
    assert members("front") == {"web", "proxy", "tls"}
    assert "agent" not in members("backend") | members("front")
    publishing = {name for name, service in SERVICES.items() if "ports" in service}
    assert publishing == {"proxy", "tls", "agent"}
    assert publishing | {"grafana"} <= members("outside"), "the proxies find Grafana there"


@pytest.mark.parametrize("proxy", ["proxy", "tls"])
def test_a_proxy_reaches_the_web_server_from_trusted_addresses_only(proxy: str) -> None:
    """A name leads to the addresses of every network that both ends are in."""
    assert {*SERVICES["web"]["networks"]} & {*SERVICES[proxy]["networks"]} == {"front"}
    assert not {*SERVICES["web"]["networks"]} & {*SERVICES["agent"]["networks"]}


def test_the_web_server_trusts_the_proxys_addresses_only() -> None:
    """The gateway's is that of every user of this machine."""
    (range_,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    trusted, _, others = SERVICES["web"]["environment"]["SOUNDINGS_TRUSTED_PROXIES"].partition(",")

    assert (trusted, others) == (range_["ip_range"], "")
    assert ipaddress.ip_network(trusted).subnet_of(ipaddress.ip_network(range_["subnet"]))
    assert ipaddress.ip_address(range_["gateway"]) not in ipaddress.ip_network(trusted)


def test_health_is_asked_of_the_web_server_alone() -> None:
    from monitor.stack.health import HEALTH

    assert f"http://127.0.0.1:8000{HEALTH}" in SERVICES["web"]["healthcheck"]["test"][-1]


# --- the shape of the file


@every_service
def test_a_service_conforms_to_the_specification(name: str) -> None:
    service = SERVICES[name]
    for key, value in service.items():
        assert isinstance(value, SERVICE_KEYS[key]), key
    assert service["restart"] in ("no", "unless-stopped")
    for port in service.get("ports", []):
        assert re.fullmatch(r"[\d.]+:\d+:\d+(/udp)?", port), "published on an address, by default loopback's"
    check = service.get("healthcheck", {})
    assert check.keys() <= {"test", "interval", "timeout", "retries", "start_period"}
    for key in check.keys() & {"interval", "timeout", "start_period"}:
        assert DURATION.fullmatch(check[key]), key


@every_service
def test_services_depend_on_conditions_that_can_be_met(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        assert wait.keys() <= {"condition", "restart"}
        match wait["condition"]:
            case "service_started":
                assert SERVICES[other]["restart"] != "no"
            case "service_healthy":
                assert "healthcheck" in SERVICES[other]
            case "service_completed_successfully":
                assert SERVICES[other]["restart"] == "no"
            case condition:
                pytest.fail(f"{name} waits for {other}: {condition}")


def test_services_sharing_a_network_publish_no_ports_themselves() -> None:
    for name, service in SERVICES.items():
        if "network_mode" in service:
            kind, _, other = service["network_mode"].partition(":")
            assert (kind, other) == ("none", "") or (kind == "service" and other in SERVICES), name
            assert not service.keys() & {"ports", "networks", "sysctls"}, name


def test_the_file_has_only_top_level_keys_of_compose() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}
