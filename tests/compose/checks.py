"""Checks of the containers: each uses them, and returns a line for the table.

A check raises if its requirement is not met. They run in the order of `CHECKS`, each on the state left by the previous
check.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from tests.compose.engine import CommandError
from tests.compose.stack import (
    GATEWAY,
    NAME,
    PORT,
    PUBLIC_URL,
    REDIRECT_PORT,
    TLS_PORT,
    Stack,
    issue_certificate,
    name_of,
    wait_for,
)

LONG_RUNNING = ("timescaledb", "redis", "web", "worker", "beat", "proxy", "tls", "agent", "grafana")
PASSWORD = "correct-horse-battery"


def check_health(stack: Stack) -> str:
    states = {name_of(container): container["State"]["Health"]["Status"] for container in stack.containers()}
    ended = {name_of(container): container["State"]["ExitCode"] for container in stack.containers(ended=True)}
    require(states == dict.fromkeys(LONG_RUNNING, "healthy"), f"running: {states}")
    require(ended == {"secrets": 0, "migrate": 0, "token": 0}, f"ended: {ended}")
    return f"{len(states)} services healthy, {len(ended)} jobs ended with 0"


def check_results(stack: Stack) -> str:
    return f"first new result after {stack.new_bursts('here'):.0f} s"


def check_hypertables(stack: Stack) -> str:
    count = int(stack.sql("SELECT count(*) FROM timescaledb_information.hypertables"))
    version = stack.sql("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")
    require(count > 0, "no hypertable")
    return f"{count} hypertables, TimescaleDB {version}"


def check_role(stack: Stack) -> str:
    superusers = stack.sql("SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolsuper")
    owner = stack.sql("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'soundings'")
    tables = stack.sql("SELECT string_agg(DISTINCT tableowner, ',') FROM pg_tables WHERE schemaname = 'public'")
    require((superusers, owner, tables) == ("postgres", "soundings", "soundings"), f"{superusers}; {owner}; {tables}")
    return "the centre owns the database and is no superuser"


def check_login(stack: Stack) -> str:
    output = stack.compose(
        "exec", "-T", "web", "python", "manage.py", "user", "add", "ada", "--role", "operator", stdin=PASSWORD.encode()
    )
    require("ada" in output, output)
    form, cookies, text = get(stack, "/login/", {})
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text)
    require(form == 200 and token is not None, f"login page: {form}")
    assert token is not None
    body = urlencode({"username": "ada", "password": PASSWORD, "csrfmiddlewaretoken": token[1]})
    status, cookies, _ = get(stack, "/login/", cookies, body)
    require(status == 302 and "sessionid" in cookies, f"login: {status}")
    status, _, text = get(stack, "/", cookies)
    require(status == 200 and "This machine" in text, f"page: {status}")
    return "over HTTPS, by password"


def check_report(stack: Stack) -> str:
    """Needs every library of charts and PDFs, parts of which are left out of the image."""
    today = datetime.now(UTC).date().isoformat()
    report = "/data/test.pdf"
    words = ("report", "weekly", "--from", today, "--to", today, "--out", report)
    stack.compose("exec", "-T", "web", "python", "manage.py", *words)
    size = int(stack.compose("exec", "-T", "web", "stat", "--format=%s", report).split()[-1])
    require(size > 10_000, f"{size} bytes")
    return f"PDF of {size / 1e3:.0f} kB"


def check_plain_http(stack: Stack) -> str:
    """A proxy on this machine connects from the gateway's address, which is trusted; others are redirected."""
    answers = {}
    for scheme in ("", "https"):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        headers = {"Host": NAME, **({"X-Forwarded-Proto": scheme} if scheme else {})}
        connection.request("GET", "/login/", headers=headers)
        answer = connection.getresponse()
        answers[scheme] = (answer.status, (answer.getheader("Location") or "").partition("://")[0])
        connection.close()
    require(answers == {"": (301, "https"), "https": (200, "")}, str(answers))
    return "HTTP redirected; a trusted proxy's HTTPS served"


def check_grafana(stack: Stack) -> str:
    """The stand-in answers with the host, scheme and path that it got."""
    served = get(stack, "/grafana/d/soundings-mesh", {})
    require(
        served[0] == 200 and served[2].split() == [f"{NAME}:{TLS_PORT}", "https", "/grafana/d/soundings-mesh"],
        str(served),
    )
    redirects = {}
    for host, port, path in ((GATEWAY, REDIRECT_PORT, "/grafana/"), ("127.0.0.1", PORT, "/grafana")):
        connection = http.client.HTTPConnection(host, port, timeout=30)
        connection.request("GET", path, headers={"Host": f"{NAME}:{port}"})
        answer = connection.getresponse()
        redirects[port] = (answer.status, answer.getheader("Location"))
        connection.close()
    require(redirects == {REDIRECT_PORT: (308, f"{PUBLIC_URL}/grafana/"), PORT: (308, "/grafana/")}, str(redirects))
    return "under /grafana/ over HTTPS, the port of which the redirect names"


def check_renewal(stack: Stack) -> str:
    """A new certificate, and certbot's hooks as the document has them, from another folder."""
    issue_certificate(stack.folder)
    hooks = re.findall(r"^    --\w+-hook '(.*?)'", (stack.root / "docs/compose.md").read_text(), re.MULTILINE)
    require(len(hooks) == 2, str(hooks))
    for hook in hooks:
        line = hook.replace("/srv/soundings", f"{stack.root} --project-name soundings-test")
        stack.engine.run("sh", "-c", line, environment=stack.environment, cwd=stack.folder)
    wait_healthy(stack, "tls")
    expected = ssl.PEM_cert_to_DER_cert((stack.folder / "centre.pem").read_text())
    with connect(stack) as served:
        require(served.getpeercert(binary_form=True) == expected, "the old certificate is served")
    return "served after certbot's hooks"


def check_commands(stack: Stack) -> str:
    """Commands as the document gives them; the doctor fails here for the clock at least."""
    stack.compose("run", "--rm", "-T", "migrate", "python", "manage.py", "mesh", "check", "/etc/soundings/mesh.toml")
    doctor = ("exec", "-T", "agent", "python", "-m", "probes", "site", "doctor", "--data", "/data")
    for output in (stack.compose(*doctor, check=False), stack.far(*doctor, check=False)):
        good = set(re.findall(r"^OK +(\w+)", output, re.MULTILINE))
        require({"iperf3", "ip", "centre"} <= good, output)
    ports = [stack.compose("port", "--protocol", protocol, "agent", "5201").strip() for protocol in ("tcp", "udp")]
    require(ports == ["127.0.0.1:5201"] * 2, str(ports))
    return "mesh check; site doctor at both sites; port 5201 published for TCP and UDP"


def check_far_site(stack: Stack) -> str:
    url = enrol_far(stack)
    return f"joined {url}; first result after {stack.new_bursts('far'):.0f} s"


def enrol_far(stack: Stack) -> str:
    """Let the agent of the other site join and start it; returns the address that it joined."""
    output = stack.compose("exec", "-T", "web", "python", "manage.py", "site", "enrol", "far")
    command = re.search(r"python -m probes (site join (\S+) \S+)", output)
    require(command is not None and command[2] == PUBLIC_URL, output)
    assert command is not None
    stack.far("run", "--rm", "--build", "agent", *command[1].split(), "--data", "/data")
    stack.far("up", "--detach", "--wait")
    return command[2]


def check_web_alone(stack: Stack) -> str:
    stack.compose("restart", "web")
    wait_healthy(stack, "web")
    restarts = stack.container("agent")["RestartCount"]
    waited = stack.new_bursts("here")
    require(restarts == stack.container("agent")["RestartCount"], "the agent restarted")
    return f"next result of the agent after {waited:.0f} s"


def check_kills(stack: Stack) -> str:
    back = []
    for service in LONG_RUNNING:
        before = stack.container(service)
        started = time.monotonic()
        # By its process: a container ended by `docker kill` is not restarted.
        os.kill(before["State"]["Pid"], signal.SIGKILL)
        wait_for(
            lambda service=service, count=before["RestartCount"]: stack.container(service)["RestartCount"] > count,
            f"{service} did not start again",
        )
        wait_healthy(stack, service)
        back.append(f"{service} {time.monotonic() - started:.0f}")
    stack.new_bursts("here")
    stack.new_bursts("far")
    return f"healthy again after s: {', '.join(back)}; results go on"


def check_down_and_up(stack: Stack) -> str:
    before = stack.bursts("here")
    stack.compose("down")
    seconds = stack.up()
    require(stack.bursts("here") >= before > 0, "results are gone")
    stack.new_bursts("here")
    return f"{before} bursts kept; `up --wait` {seconds:.0f} s"


def check_second_up(stack: Stack) -> str:
    before = {name_of(running): running["Id"] for running in stack.containers()}
    seconds = stack.up("--build")
    require(before == {name_of(running): running["Id"] for running in stack.containers()}, "containers were made anew")
    return f"keeps every container; {seconds:.0f} s"


def check_backup(stack: Stack) -> str:
    dump = stack.folder / "soundings.dump"
    text = (stack.root / "docs/backup.md").read_text().partition("## With compose")[2]
    text = text.replace("docker compose", "docker compose --project-name soundings-test")
    text = text.replace("soundings_database", "soundings-test_database").replace("soundings.dump", str(dump))
    backup, _, restore = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[:3]
    stack.shell(backup)
    require(dump.stat().st_mode & 0o777 == 0o600, f"mode {dump.stat().st_mode:o}")
    before = stack.bursts("here")
    *emptying, restoring, starting = restore.splitlines()
    for line in emptying:
        stack.shell(line)
    require(stack.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'burst'") == "0", "the old database is there")
    stack.shell(restoring)
    restored = stack.bursts("here")
    stack.shell(starting)
    require(0 < restored <= before, f"{restored} of {before}")
    stack.new_bursts("here")
    return f"{dump.stat().st_size / 1e6:.1f} MB; {restored} bursts in a new volume, of {before}"


def check_password(stack: Stack) -> str:
    """A password that does not belong to the volume, mended by the lines of the document."""
    stack.sql("ALTER ROLE postgres PASSWORD 'of another volume'")
    stack.compose("up", "--detach", "--wait", check=False)
    logs = stack.compose("logs", "migrate")
    require('password authentication failed for user "postgres"' in logs, logs)
    text = (stack.root / "docs/compose.md").read_text()
    (lines,) = [
        block for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "ALTER ROLE" in block
    ]
    stack.shell(lines.replace("docker compose", "docker compose --project-name soundings-test"))
    stack.new_bursts("here")
    return "set again by these lines; results go on"


def check_scale(stack: Stack) -> str:
    seconds = stack.up("--scale", "web=2", "--scale", "worker=2")
    counts = [name_of(running) for running in stack.containers() if running["State"]["Health"]["Status"] == "healthy"]
    require((counts.count("web"), counts.count("worker")) == (2, 2), str(counts))
    statuses = {get(stack, "/login/", {})[0] for _ in range(20)}
    require(statuses == {200}, str(statuses))
    stack.new_bursts("here")
    return f"2 web, 2 worker healthy after {seconds:.0f} s; 20 of 20 pages served"


def check_earlier_volume(stack: Stack) -> str:
    """A database in which the centre is the superuser, with the results of the backup."""
    stack.compose("down", "--volumes")
    stack.compose("up", "--detach", "--wait", "timescaledb", files=("tests/compose/before.yml",))
    url = "postgresql://soundings:$(cat /run/soundings/database/password)@timescaledb:5432/soundings"
    stack.shell(
        "docker compose --project-name soundings-test run --rm --no-deps -T --entrypoint sh "
        "--volume soundings-test_database-secrets:/run/soundings/database:ro admin "
        f"-ec 'unset SOUNDINGS_DATABASE_URL_FILE; export SOUNDINGS_DATABASE_URL={url}; "
        f"exec python manage.py archive restore -' < {stack.folder / 'soundings.dump'}"
    )
    before = int(stack.sql_as("soundings", "SELECT count(*) FROM burst"))
    stack.up()
    require(int(stack.sql("SELECT count(*) FROM burst")) >= before > 0, "results are gone")
    stack.new_bursts("here")
    return f"{before} bursts kept; {check_role(stack)}"


def check_inspect(stack: Stack) -> str:
    files = stack.compose(
        *("run", "--rm", "--no-deps", "-T", "--entrypoint", "sh", "secrets"),
        *("-c", "for file in /secrets/*/*; do echo; cat $file; done"),
    )
    secrets = {word for word in re.split(r"[\s:/@]+", files) if re.fullmatch(r"[0-9a-f]{64}", word)}
    secrets |= {"hunter2", "hunter3"}
    require(len(secrets) >= 8, f"{len(secrets)} secrets found")
    inspected = str([*stack.containers(), *stack.containers(ended=True)])
    inspected += stack.engine.run("docker", "history", "--no-trunc", "soundings:0.1.0")[1]
    require(not [word for word in secrets if word in inspected], "a secret is shown")
    return f"none of {len(secrets)} secrets in docker inspect and docker history"


def check_hardening(stack: Stack) -> str:
    for running in stack.containers():
        host, name = running["HostConfig"], name_of(running)
        require(host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"], name)
        require(host["Memory"] > 0 and host["PidsLimit"] > 0, f"{name}: no limits")
        lines = open(f"/proc/{running['State']['Pid']}/status").read()  # noqa: SIM115, PTH123
        status = dict(line.split(":\t", 1) for line in lines.splitlines() if ":\t" in line)
        require(status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0, f"{name}: privileges")
        require(status["Uid"].split()[0] != "0", f"{name}: root")
    return "no root, no capability, no new privileges, read-only root, limits of memory and processes"


def check_volumes(stack: Stack) -> str:
    volumes = stack.engine.run("docker", "volume", "ls", "--quiet")[1].split()
    require([name for name in volumes if not name.startswith("soundings-test")] == [], str(volumes))
    return f"{len(volumes)} volumes, none anonymous"


def check_bake(stack: Stack) -> str:
    output = stack.engine.run("docker", "buildx", "bake", "--print", cwd=stack.root)[1]
    require(output.count("linux/arm64") == output.count("linux/amd64") == 2, output)
    return "docker-bake.hcl: 2 images for amd64 and arm64 (read, not built here for arm64)"


CHECKS: tuple[tuple[str, Callable[[Stack], str]], ...] = (
    ("all healthy", check_health),
    ("results arrive", check_results),
    ("hypertables", check_hypertables),
    ("role of the centre", check_role),
    ("login and page", check_login),
    ("plain HTTP", check_plain_http),
    ("second site from the agent's image", check_far_site),
    ("Grafana's address, with a stand-in", check_grafana),
    ("commands of other documents", check_commands),
    ("certificate renewed", check_renewal),
    ("report", check_report),
    ("web restarted alone", check_web_alone),
    ("`up --build` again", check_second_up),
    ("each service killed (SIGKILL)", check_kills),
    ("down and up", check_down_and_up),
    ("nothing secret shown", check_inspect),
    ("privileges", check_hardening),
    ("volumes", check_volumes),
    ("backup, restore into a new volume", check_backup),
    ("another password in the database", check_password),
    ("`--scale web=2 --scale worker=2`", check_scale),
    ("database from before 0.1.0", check_earlier_volume),
    ("two architectures", check_bake),
)


def get(stack: Stack, path: str, cookies: dict[str, str], body: str | None = None) -> tuple[int, dict[str, str], str]:
    """Status, cookies and text of a page over HTTPS, by the name of the certificate."""
    connection = http.client.HTTPSConnection(NAME, TLS_PORT, timeout=30)
    connection.sock = connect(stack)
    headers = {"Host": f"{NAME}:{TLS_PORT}", "Cookie": "; ".join(f"{name}={cookies[name]}" for name in cookies)}
    if body is not None:
        headers |= {"Content-Type": "application/x-www-form-urlencoded", "Referer": f"{PUBLIC_URL}{path}"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    jar: SimpleCookie = SimpleCookie()
    for value in answer.headers.get_all("Set-Cookie") or []:
        jar.load(value)
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, {**cookies, **{name: morsel.value for name, morsel in jar.items()}}, text


def connect(stack: Stack) -> ssl.SSLSocket:
    """A TLS connection with the proxy, whose certificate is verified."""
    context = ssl.create_default_context(cafile=str(stack.folder / "ca.pem"))
    return context.wrap_socket(socket.create_connection((GATEWAY, TLS_PORT), timeout=30), server_hostname=NAME)


def wait_healthy(stack: Stack, service: str) -> None:
    wait_for(
        lambda: stack.container(service)["State"].get("Health", {}).get("Status") == "healthy",
        f"{service} is not healthy",
    )


def require(condition: bool, failure: str) -> None:
    if not condition:
        raise CommandError(failure)
