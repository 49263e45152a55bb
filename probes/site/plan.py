"""The plan of this site, fetched when changed and kept on disk; a new plan applies from the next cycle."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from probes.private_files import replace_privately, sync_folder
from probes.site.delivery.backoff import BackOff
from probes.site.delivery.centre import Centre, CentreError
from probes.site.wire import Plan

# A delivery's answer replaces a plan request this long: less than their interval, so that users wait no longer.
TOLD_FOR_S = 9.0

logger = logging.getLogger(__name__)


class PlanCache:
    """The plan in a file, reread only when replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._plan: Plan | None = None

    def current(self) -> Plan | None:
        """The plan; None before the first, or if unreadable."""
        with self._lock:
            stamp = self._file_stamp()
            if stamp != self._stamp:
                self._plan = None if stamp is None else self._read()
                self._stamp = stamp
            return self._plan

    def store(self, plan: Plan) -> None:
        """Replace the plan atomically: a crash leaves the old plan or the new."""
        with self._lock:
            with replace_privately(self._path, self._path.with_suffix(".new")) as file:
                file.write(msgspec.json.encode(plan))
            sync_folder(self._path.parent)

    def _file_stamp(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _read(self) -> Plan | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Plan)
        except (OSError, msgspec.DecodeError) as error:
            logger.error("plan: %s cannot be read (%s); waiting for a new plan from the centre", self._path, error)
            return None


class PlanPuller:
    """Fetches the plan from the centre, with pauses after failures."""

    def __init__(self, cache: PlanCache, centre: Centre, *, back_off: BackOff | None = None) -> None:
        self._cache = cache
        self._centre = centre
        self._back_off = back_off if back_off is not None else BackOff()

    def is_told_to_fetch(self) -> bool:
        """Whether the newest delivery was answered with another version."""
        current, told = self._cache.current(), self._centre.plan_told
        return told is not None and (current is None or told[0] != current.version)

    def run(self) -> bool:
        """Fetch a changed plan; returns whether it did."""
        if not self._back_off.may_try():
            return False
        current, told = self._cache.current(), self._centre.plan_told
        is_fresh = told is not None and self._centre.clock.now_s() - told[1] < TOLD_FOR_S
        if is_fresh and not self.is_told_to_fetch():
            return False
        try:
            plan = self._centre.plan(None if current is None else current.version)
        except CentreError as error:
            pause_s = self._back_off.failed(error.retry_after_s)
            going_on = "no plan yet" if current is None else f"going on with plan {current.version}"
            logger.warning("plan: %s; %s; retry in %.0f s", error, going_on, pause_s)
            return False
        if plan is None:
            self._back_off.succeeded()
            return False
        try:
            self._cache.store(plan)
        except OSError as error:
            pause_s = self._back_off.failed()
            logger.error("plan: version %s cannot be stored (%s); retry in %.0f s", plan.version, error, pause_s)
            return False
        self._back_off.succeeded()
        logger.info("plan: version %s for site %s: %s", plan.version, plan.site, plan.contents)
        return True
