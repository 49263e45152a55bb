"""The command that `up --lab` prints to break a path: it works in a terminal without the variables of this process."""

import os
import socket
from datetime import UTC, datetime
from types import SimpleNamespace

from monitor.stack.management.commands.up import break_hint
from probes.lab import control
from probes.lab.control import LabState, SiteState


def test_it_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SOUNDINGS_DATA", str(tmp_path))  # as `up` sets it for its services
    folder = tmp_path / "lab"
    folder.mkdir()
    site = SiteState(title="Site", addresses=("10.0.0.1",), net_fd=1)
    control.write_state(
        folder,
        LabState(
            pid=os.getpid(), scenario="two", title="Two", seed=1, started_at=datetime.now(UTC), user_fd=None,
            scheduling="other", control_socket="", centre_port=8000, sites={"cern": site, "slac": site},
        ),
    )  # fmt: skip

    with socket.socket(socket.AF_UNIX) as lab:
        lab.bind(str(folder / control.CONTROL_SOCKET))
        lab.listen()

        hint = break_hint(SimpleNamespace(data=tmp_path, url="http://127.0.0.1:8000"))

    assert f"lab set cern slac --loss 0.2 --watch --run-dir {folder} " in hint
