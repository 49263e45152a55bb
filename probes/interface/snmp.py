"""Reads counters of a router's interface over SNMP 2c or 3 (IF-MIB, RFC 2863).

The clock is the router's uptime; a restart or discontinuity begins a new epoch. pysnmp is loaded with the first poll.
Neither messages nor logs contain secrets.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Hashable, Sequence
from typing import Any

from probes.contract import Deadline, ProbeError
from probes.free_text import cleaned
from probes.interface.counters import Reading
from probes.interface.limits import SnmpRouter, secret

UPTIME = "1.3.6.1.2.1.1.3.0"
IF_X = "1.3.6.1.2.1.31.1.1.1"
IF = "1.3.6.1.2.1.2.2.1"
NAME, ALIAS = f"{IF_X}.1", f"{IF_X}.18"
# ifName, ifAlias, ifHCInOctets, ifHCOutOctets, ifHighSpeed, ifCounterDiscontinuityTime, ifInErrors, ifOutErrors,
# ifInDiscards, ifOutDiscards.
OBJECTS = (
    NAME, ALIAS, f"{IF_X}.6", f"{IF_X}.10", f"{IF_X}.15", f"{IF_X}.19",
    f"{IF}.14", f"{IF}.20", f"{IF}.13", f"{IF}.19",
)  # fmt: skip
TICKS_PER_S = 100
TIMEOUT_S, RETRIES = 3.0, 2
ROWS_AT_ONCE = 25
INSTALL = 'this agent cannot poll SNMP; pip install "soundings-agent[snmp]"'

_indexes: dict[Hashable, int] = {}
_lock = threading.Lock()


def is_installed() -> bool:
    """Whether pysnmp is there; does not load it."""
    return importlib.util.find_spec("pysnmp") is not None


def read(address: str, interface: str, router: SnmpRouter, deadline: Deadline) -> Reading:
    """Read counters; `address` is literal. Raises `ProbeError`."""
    if not is_installed():
        raise ProbeError(INSTALL, permanent=True)
    try:
        return asyncio.run(asyncio.wait_for(_read(address, interface, router), deadline.remaining_s))
    except TimeoutError as error:
        raise ProbeError(f"{address}: no answer over SNMP within {deadline.remaining_s:.0f} s") from error


async def _read(address: str, interface: str, router: SnmpRouter) -> Reading:
    poll = await Poll.begin(address, router)
    try:
        key = (address, router.port, interface)
        with _lock:
            index = _indexes.get(key)
        if index is None or not await poll.is_named(index, interface):
            index = await poll.index_of(interface)
            with _lock:
                _indexes[key] = index
        return await poll.reading(index)
    finally:
        poll.close()


class Poll:
    """A conversation with the SNMP agent of a router."""

    def __init__(self, hlapi: Any, engine: Any, authentication: Any, transport: Any, address: str) -> None:
        self._hlapi = hlapi
        self._engine = engine
        self._given = (engine, authentication, transport, hlapi.ContextData())
        self._address = address

    @classmethod
    async def begin(cls, address: str, router: SnmpRouter) -> Poll:
        """Open the socket. Raises `ProbeError`."""
        from pysnmp.hlapi.v3arch import asyncio as hlapi

        target = hlapi.Udp6TransportTarget if ":" in address else hlapi.UdpTransportTarget
        transport = await target.create((address, router.port), timeout=TIMEOUT_S, retries=RETRIES)
        return cls(hlapi, hlapi.SnmpEngine(), _authentication(hlapi, router), transport, address)

    def close(self) -> None:
        self._engine.close_dispatcher()

    async def is_named(self, index: int, interface: str) -> bool:
        """Whether the index still is the interface's; a router's restart may change it."""
        if interface.startswith("#"):
            return True
        values = await self._get([f"{NAME}.{index}", f"{ALIAS}.{index}"])
        return interface in (_text(value) for value in values)

    async def index_of(self, interface: str) -> int:
        """Index of the interface with this ifName or ifAlias. Raises `ProbeError`."""
        if interface.startswith("#"):
            return int(interface[1:])
        for column in (NAME, ALIAS):
            indexes = [index for index, text in await self._column(column) if text == interface]
            if len(indexes) == 1:
                return indexes[0]
            if indexes:
                raise ProbeError(f"{self._address}: {len(indexes)} interfaces are named {interface!r}", permanent=True)
        raise ProbeError(f"{self._address}: no interface has the ifName or ifAlias {interface!r}", permanent=True)

    async def reading(self, index: int) -> Reading:
        """Read the counters. Raises `ProbeError`."""
        uptime, *values = await self._get([UPTIME, *(f"{column}.{index}" for column in OBJECTS)])
        numbers = [_number(value) for value in values[2:]]
        in_octets, out_octets, megabits, discontinuity, *events = numbers
        if uptime is None or in_octets is None or out_octets is None:
            raise ProbeError(f"{self._address}: interface {index} has no 64-bit counters (ifHCInOctets)")
        in_errors, out_errors, in_drops, out_drops = events
        return Reading(
            at_s=int(uptime) / TICKS_PER_S,
            epoch=(index, discontinuity),
            name=_text(values[0]) or f"#{index}",
            alias=_text(values[1]) or None,
            speed_bps=megabits * 1e6 if megabits else None,
            in_octets=in_octets,
            out_octets=out_octets,
            in_errors=in_errors,
            out_errors=out_errors,
            in_drops=in_drops,
            out_drops=out_drops,
            error_bits=32,
        )

    async def _get(self, names: Sequence[str]) -> list[Any]:
        """Values of objects; None where the agent lacks an object."""
        answer = await self._hlapi.get_cmd(*self._given, *self._objects(names), lookupMib=False)
        return [self._value(value) for _, value in self._rows(answer)]

    async def _column(self, column: str) -> list[tuple[int, str]]:
        """Index and text of each row of a column."""
        rows: list[tuple[int, str]] = []
        last = column
        while True:
            answer = await self._hlapi.bulk_cmd(*self._given, 0, ROWS_AT_ONCE, *self._objects([last]), lookupMib=False)
            for name, value in self._rows(answer):
                last = str(name)
                if not last.startswith(f"{column}.") or self._value(value) is None:
                    return rows
                rows.append((int(last.rpartition(".")[2]), _text(value)))

    def _objects(self, names: Sequence[str]) -> list[Any]:
        return [self._hlapi.ObjectType(self._hlapi.ObjectIdentity(name)) for name in names]

    def _rows(self, answer: Any) -> list[Any]:
        problem, status, index, rows = answer
        if problem:
            raise ProbeError(f"{self._address}: SNMP: {problem}")
        if status:
            raise ProbeError(f"{self._address}: SNMP: {status.prettyPrint()} at object {index}")
        if not rows:
            raise ProbeError(f"{self._address}: SNMP: an empty answer")
        return list(rows)

    @staticmethod
    def _value(value: Any) -> Any:
        return None if type(value).__name__ in ("NoSuchObject", "NoSuchInstance", "EndOfMibView", "Null") else value


def _authentication(hlapi: Any, router: SnmpRouter) -> Any:
    if router.version == "2c":
        return hlapi.CommunityData(secret(router.community_file or ""), mpModel=1)
    protocols = {
        "sha1": hlapi.USM_AUTH_HMAC96_SHA,
        "sha256": hlapi.USM_AUTH_HMAC192_SHA256,
        "sha512": hlapi.USM_AUTH_HMAC384_SHA512,
    }
    ciphers = {"aes128": hlapi.USM_PRIV_CFB128_AES, "aes256": hlapi.USM_PRIV_CFB256_AES}
    privacy = {}
    if router.privacy_file is not None:
        privacy = {"privKey": secret(router.privacy_file), "privProtocol": ciphers[router.privacy]}
    return hlapi.UsmUserData(
        router.user,
        authKey=secret(router.authentication_file or ""),
        authProtocol=protocols[router.authentication],
        **privacy,
    )


def _text(value: Any) -> str:
    return "" if value is None else cleaned(bytes(value).decode(errors="replace"))


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
