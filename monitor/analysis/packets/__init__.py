"""TCP transfers from captures of their packets: `read_capture`, `connections_of`, `figures_of`."""

from monitor.analysis.packets.capture_file import CapturedPacket, CaptureError, read_capture
from monitor.analysis.packets.connections import TcpConnection, connections_of
from monitor.analysis.packets.figures import CaptureFigures, figures_of

__all__ = [
    "CaptureError",
    "CaptureFigures",
    "CapturedPacket",
    "TcpConnection",
    "connections_of",
    "figures_of",
    "read_capture",
]
