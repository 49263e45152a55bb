"""A Unix socket that answers as the control socket of a running lab, for the tests of the lab's page."""

import socket
import threading

import msgspec

from probes.lab import control
from probes.lab.emulated_path import PathCounters
from probes.lab.routing.protocol import RouteRequest
from probes.lab.settings import PathSettings

ORIGINAL = PathSettings(delay_ms=40.0)


class FakeLab:
    """A control socket with the state of two paths, that changes them as requested."""

    def __init__(self, run_dir, planted_at, pair=("cern", "slac")):
        self.settings = {pair: ORIGINAL, pair[::-1]: ORIGINAL}
        self.planted_at = planted_at
        self.changed_at = {}
        self.routes = self.links = ()
        self.restored = []
        self.centre, self.cut_off_at = "up", None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(run_dir / control.CONTROL_SOCKET))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """Wait for the thread: its accept would go on with the descriptor, which may be another's by then."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as lines:
                request = msgspec.json.decode(lines.readline(), type=control.Request)
                lines.write(msgspec.json.encode(self._reply(request)) + b"\n")

    def _reply(self, request):
        if isinstance(request, control.StatusRequest):
            return control.Reply(status=self._status())
        if isinstance(request, control.CentreRequest):
            self.centre, self.cut_off_at = "up" if request.up else "down", None
            return control.Reply()
        pair = (request.source, request.destination)
        if isinstance(request, RouteRequest) or request.is_link:
            self.restored.append((type(request).__name__, *pair))
            return control.Reply()
        try:
            changed = {**msgspec.structs.asdict(self.settings[pair]), **request.changes}
            self.settings[pair] = msgspec.convert(changed, PathSettings)
        except msgspec.ValidationError as error:
            return control.Reply(error=str(error))
        self.changed_at[pair] = None if self.settings[pair] == ORIGINAL else self.planted_at
        return control.Reply()

    def _status(self):
        state = control.LabState(
            pid=1, scenario="two", title="Two sites", seed=1, started_at=self.planted_at, user_fd=None,
            scheduling="other", control_socket="", centre_port=8000, sites={},
        )  # fmt: skip
        return control.LabStatus(
            lab=state, routes=self.routes, links=self.links, uptime_s=1.0, centre=self.centre, sites=(),
            cut_off_at=self.cut_off_at,
            timing=control.Timing(late_over_1ms=0, latest_ms=0.0, late_s=0.0, cpu_s=0.0, waited_s=None),
            paths=tuple(
                control.PathStatus(
                    source=pair[0], destination=pair[1], settings=settings, counts=PathCounters(), held=0,
                    original=ORIGINAL, changed_at=self.changed_at.get(pair),
                )
                for pair, settings in self.settings.items()
            ),
        )  # fmt: skip
