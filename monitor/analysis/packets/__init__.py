"""TCP transfers from packet captures. `lost_between` compares the captures of both ends."""

from monitor.analysis.packets.capture_file import CaptureError, read_capture
from monitor.analysis.packets.connections import TcpConnection, connections_of
from monitor.analysis.packets.figures import CaptureFigures, captured_figures_of, figures_of
from monitor.analysis.packets.kept import KeptPart
from monitor.analysis.packets.losses import CaptureLosses, LostWhere, lost_between
from monitor.analysis.packets.time_sequence import TimeSequence, time_sequence
from monitor.analysis.packets.unread import Unread, no_data_reason, unread_sentences
