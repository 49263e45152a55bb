"""Send messages to a notification channel, in a process that is killed after a timeout.

URLs may hold passwords: passed by standard input, never in error messages.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from threading import Event, Timer
from typing import Any

from django.conf import settings

# Timeout for all messages to a channel in a run; then its process is killed.
SEND_LIMIT_S = 30.0

log = logging.getLogger("monitor.alerts")

_LOG = "log:"


@dataclass(frozen=True, slots=True)
class Message:
    key: str
    title: str
    body: str
    severity: str  # of mesh.toml, or `good`
    payload: dict[str, Any]  # for webhooks


@dataclass(frozen=True, slots=True)
class SendResult:
    key: str
    problem: str  # empty if accepted


def send(
    url: str, messages: Sequence[Message], note: Callable[[SendResult], None], limit_s: float = SEND_LIMIT_S
) -> None:
    """Send messages in order and call `note` with each answer; stop after the first failure. Never raises."""
    if url.startswith(_LOG):
        for message in messages:
            _write_to_log(message)
            note(SendResult(message.key, ""))
        return
    job = json.dumps({"url": url, "messages": [asdict(message) for message in messages]})
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor.alerts.notify.sender"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=settings.BASE_DIR,
    )
    is_late = Event()

    def end() -> None:
        is_late.set()
        process.kill()

    hung = Timer(limit_s, end)
    hung.start()
    noted = 0
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the sender has no pipes")
        try:
            process.stdin.write(job)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the process has died, which is noted below as it gave no answer
        failed = False
        for line in process.stdout:
            answer = SendResult(**json.loads(line))
            note(answer)
            noted += 1
            failed = failed or bool(answer.problem)
        code = process.wait()
        if noted < len(messages) and not failed:
            late = f"timed out after {limit_s:g} s; the message may have arrived"
            note(
                SendResult(
                    messages[noted].key, late if is_late.is_set() else f"the sender process exited with code {code}"
                )
            )
    finally:
        hung.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _write_to_log(message: Message) -> None:
    level = logging.INFO if message.severity == "good" else logging.WARNING
    log.log(level, "%s. %s", message.title, " ".join(message.body.split()))
