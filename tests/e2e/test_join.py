"""A site joins a real centre over HTTP and HTTPS on loopback, and each kind of failure has its own message."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

import probes
from monitor.agents.enrolment import issue_code
from monitor.agents.health import agent_reports
from monitor.agents.models import AgentToken, EnrolmentCode
from monitor.archive.models import Burst
from monitor.mesh.models import Host, Measurement
from monitor.mesh.models import Test as MeshTest
from probes.__main__ import main
from probes.site.delivery.centre_clock import CentreClock
from probes.site.join import JoinError, JoinFailure, join
from probes.site.settings import JoinedCentre, read_joined
from tests.db.mesh_of_three import NOW, make_mesh
from tests.e2e.centre import free_port, make_certificate, web_server
from tests.e2e.stack import TOP, wait_for

pytestmark = pytest.mark.django_db(transaction=True)
WRONG_CODE = "AAAA-BBBB-CCCC-DDDD-EEEE"


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture
def code(mesh):
    return issue_code(mesh.cern.pk, timezone.now())


@pytest.fixture(scope="module")
def web_folder(tmp_path_factory, django_db_setup):
    """The logs of the servers of all tests here, and their certificate."""
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def plain_port(web_folder):
    with web_server(web_folder) as port:
        yield port


@pytest.fixture
def http(plain_port, mesh):
    return f"http://127.0.0.1:{plain_port}"


@pytest.fixture
def https(web_folder, mesh):
    """Over TLS, with an untrusted certificate."""
    certificate, key = make_certificate(web_folder, "IP:127.0.0.1")
    with web_server(web_folder, "--certfile", certificate, "--keyfile", key) as port:
        yield f"https://127.0.0.1:{port}"


def failure(*arguments, **options):
    with pytest.raises(JoinError) as caught:
        join(*arguments, **options)
    return caught.value


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# --- joining


def test_over_https_a_site_gets_its_token_and_deletes_the_code(tmp_path, web_folder, https, code, monkeypatch, capsys):
    monkeypatch.setenv("SSL_CERT_FILE", str(web_folder / "certificate.pem"))
    data = tmp_path / "agent"

    assert main(["site", "join", https, code, "--data", str(data)]) == 0

    token = (data / "token").read_text().strip()
    assert (data / "token").stat().st_mode & 0o777 == 0o600
    assert files(data) == ["centre.json", "token"]
    assert read_joined(data) == JoinedCentre(centre=https, site="cern")
    output = capsys.readouterr()
    assert output.out == f"site: cern has joined {https}; the token is in {data}/token\n"
    for secret in (token, code):
        assert secret not in output.out + output.err + (web_folder / "web.log").read_text()
    assert main(["site", "doctor", "--data", str(data), "--json"]) in (0, 1)
    findings = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["centre"]["found"].startswith("site cern")
    assert findings["token"]["mend"] is None
    assert findings["clock and centre"]["mend"] is None


def test_the_code_may_be_given_on_standard_input(tmp_path, http, code):
    data = tmp_path / "agent"

    done = subprocess.run(
        [sys.executable, "-m", "probes", "site", "join", http, "-", "--data", data],
        cwd=TOP,
        input=f"{code}\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (data / "token").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_joins_for_the_owner_of_the_folder(tmp_path, http, code):
    data = tmp_path / "agent"
    data.mkdir()
    os.chown(data, 4321, 4322)

    join(http, code, data)

    assert {(path.name, path.stat().st_uid, path.stat().st_gid) for path in data.iterdir()} == {
        ("token", 4321, 4322),
        ("centre.json", 4321, 4322),
    }


# --- failures


def test_without_a_server_the_centre_is_unreachable(tmp_path, code):
    error = failure(f"http://127.0.0.1:{free_port()}", code, tmp_path / "agent")

    assert error.failure is JoinFailure.UNREACHABLE
    assert str(error).startswith("unreachable: centre http://127.0.0.1:")
    assert "Connection refused" in str(error)
    assert files(tmp_path / "agent") == []


def test_an_address_that_is_no_centre_is_unreachable(tmp_path, http, code):
    error = failure(f"{http}/elsewhere", code, tmp_path / "agent")

    assert error.failure is JoinFailure.UNREACHABLE
    assert "there is no centre at this address" in str(error)


def test_tls_to_a_plain_server_is_unreachable(tmp_path, http, code):
    error = failure(http.replace("http:", "https:"), code, tmp_path / "agent")

    assert error.failure is JoinFailure.UNREACHABLE


def test_an_untrusted_certificate_is_reported_and_gets_no_code(tmp_path, https, code):
    error = failure(https, code, tmp_path / "agent")

    assert error.failure is JoinFailure.CERTIFICATE
    assert "self-signed certificate" in str(error)
    assert "SSL_CERT_FILE" in str(error)
    assert EnrolmentCode.objects.get().used_at is None
    assert files(tmp_path / "agent") == []


def test_a_certificate_for_another_name_is_reported(tmp_path, mesh, code, monkeypatch):
    certificate, key = make_certificate(tmp_path, "DNS:elsewhere.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    with web_server(tmp_path, "--certfile", certificate, "--keyfile", key) as port:
        error = failure(f"https://127.0.0.1:{port}", code, tmp_path / "agent")

    assert error.failure is JoinFailure.CERTIFICATE
    assert "IP address mismatch" in str(error)


@pytest.mark.parametrize("earlier", [False, True])
def test_a_wrong_code_is_reported_and_an_earlier_token_kept(tmp_path, http, earlier):
    data = tmp_path / "agent"
    if earlier:
        data.mkdir()
        (data / "token").write_text("earlier")

    error = failure(http, WRONG_CODE, data)

    assert error.failure is JoinFailure.CODE
    assert "unknown code" in str(error)
    assert files(data) == (["token"] if earlier else [])


def test_a_used_code_is_reported_with_a_fix(tmp_path, http, code):
    join(http, code, tmp_path / "first")

    error = failure(http, code, tmp_path / "second")

    assert error.failure is JoinFailure.CODE
    assert "was used at" in str(error)
    assert "`manage.py site rotate cern` prints a new one" in str(error)
    assert AgentToken.objects.count() == 1


@pytest.mark.parametrize(("shift_s", "way"), [(90.0, "ahead of"), (-30.0, "behind")])
def test_a_wrong_clock_is_reported_with_its_offset(tmp_path, http, code, shift_s, way):
    shifted = CentreClock(wall_s=lambda: time.time() + shift_s)

    error = failure(http, code, tmp_path / "agent", clock=shifted)

    assert error.failure is JoinFailure.CLOCK
    offset_text = re.search(r"off by ([\d.]+) s: this machine's clock is (.+) the centre's", str(error))
    assert offset_text is not None, str(error)
    assert float(offset_text[1]) == pytest.approx(abs(shift_s), abs=1.0)
    assert offset_text[2] == way
    assert join(http, code, tmp_path / "agent").site == "cern"


def test_an_agent_that_is_too_old_is_told_and_keeps_its_code(tmp_path, http, code, monkeypatch):
    monkeypatch.setattr(probes, "__version__", "0.0.1")

    error = failure(http, code, tmp_path / "agent")

    assert error.failure is JoinFailure.VERSION
    assert "this agent is 0.0.1, the centre requires 0.1.0 or later" in str(error)
    monkeypatch.undo()
    assert join(http, code, tmp_path / "agent").site == "cern"


def test_plain_http_to_another_machine_sends_nothing(tmp_path, code, capsys):
    assert main(["site", "join", "http://centre.example", code, "--data", str(tmp_path / "agent")]) == 1

    message = capsys.readouterr().err
    assert "would show the token to the network" in message
    assert code not in message
    assert files(tmp_path / "agent") == []


def test_a_folder_that_cannot_be_written_uses_no_code(tmp_path, http, code, capsys):
    (tmp_path / "file").touch()

    assert main(["site", "join", http, code, "--data", str(tmp_path / "file" / "agent")]) == 1

    assert "site: join: " in capsys.readouterr().err
    assert EnrolmentCode.objects.get().used_at is None


# --- after joining


@contextlib.contextmanager
def running_agent(data):
    """`python -m probes site` with its folder as the only option."""
    data.mkdir(exist_ok=True)
    with (data / "supervisor.out").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "probes", "site", "--data", data], cwd=TOP, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def logs(folder):
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.suffix in (".log", ".out"))


def measured_from_cern(mesh):
    """Loopback addresses for all hosts, and a ping test of a second."""
    for number, host in enumerate(Host.objects.order_by("id"), 1):
        Host.objects.filter(pk=host.pk).update(address=f"127.77.{number}.1")
    parameters = {"packet_bytes": [100], "count": 2, "spacing_s": 0.1, "timeout_s": 0.3, "late_s": 0.0}
    test = MeshTest.objects.create(name="pinger", kind="ping", every_s=2, parameters=parameters)
    Measurement.objects.create(path=mesh.cern_slac, test=test, started_at=NOW)


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="ICMP sockets need root or ping_group_range")
def test_a_joined_site_measures_and_can_be_rotated_and_revoked(tmp_path, web_folder, mesh, http, code, capsys):
    measured_from_cern(mesh)
    data = tmp_path / "agent"
    data.mkdir()
    (data / "limits.toml").write_text('[networks]\nallowed = ["127.77.0.0/16"]\n')
    join(http, code, data)
    first = (data / "token").read_text().strip()

    with running_agent(data):
        (report,) = wait_for(lambda: agent_reports(timezone.now()), 60, "a delivery was accepted")
        wait_for(lambda: main(["site", "status", "--data", str(data)]) == 0, 30, "status says that it works")
        assert (report.site, report.agent_version, report.clock_is_off) == ("cern", probes.__version__, False)
        assert abs(report.health.clock_offset_s) <= report.health.clock_uncertainty_s + 0.1
        assert report.health.stamp == "kernel"
        assert report.accepted_ago < timedelta(seconds=30)

        capsys.readouterr()
        call_command("site", "rotate", "cern", "--url", http)
        second_code = capsys.readouterr().out.split()[-1]
        join(http, second_code, data)
        rotated_at = timezone.now()
        wait_for(
            lambda: agent_reports(timezone.now())[0].accepted_at > rotated_at, 60, "it delivers with the new token"
        )
        assert AgentToken.objects.filter(revoked_at=None).count() == 1

        call_command("site", "revoke", "cern")
        wait_for(lambda: "answered 401" in logs(data), 60, "the agent is told")
        capsys.readouterr()
        wait_for(lambda: "answered 401" in _last_error(data, capsys), 30, "the status shows it")
        lists = _command_lines()

    second = (data / "token").read_text().strip()
    assert Burst.objects.filter(path_id=mesh.cern_slac.pk).exists()
    assert second != first
    for secret in (first, second, code, second_code):
        assert secret not in logs(tmp_path) + logs(web_folder) + lists + (data / "state.json").read_text()


def _last_error(data, capsys):
    """As shown by `status`."""
    main(["site", "status", "--data", str(data)])
    return capsys.readouterr().out.partition("\nerror ")[2]


def _command_lines():
    """The command lines visible in the process list."""
    command_lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command_lines.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(command_lines)
