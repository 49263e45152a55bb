"""Parse mesh.toml: `read` returns a `MeshDocument`, or raises `MeshError` with all problems of the file.

This module has the tables and their keys. `rules` checks relations between them, `fields` parses single keys,
`expansion` derives the measurements. No database: `manage.py mesh check` works without it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from monitor.mesh.document import addresses, alert_rules, budgets, countries, notify_routes, rules, service_levels
from monitor.mesh.document.entries import (
    HOST_KINDS,
    ON_DEMAND,
    SHAPES,
    GroupEntry,
    HostEntry,
    MeshDocument,
    SiteEntry,
    TestEntry,
)
from monitor.mesh.document.fields import Fields, Problem, quoted
from monitor.mesh.kinds import MESH_KINDS
from probes import toml_lines
from probes.toml_lines import suggestion

__all__ = ["MeshDocument", "MeshError", "parse", "read"]

_SITE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")


class MeshError(Exception):
    """Invalid mesh.toml. Its text has a line for each problem: `file:line: problem, and the fix`."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        return [f"{self.file}:{p.line}: {p.message}" if p.line else f"{self.file}: {p.message}" for p in self.problems]


def read(path: Path | str) -> MeshDocument:
    """Read the document in the file at `path`. Raises `MeshError`, also when the file cannot be read."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror}; give the path of a mesh.toml that you may read"
        raise MeshError(str(path), [Problem(0, message)]) from error
    return parse(content, str(path))


def parse(content: bytes, file: str) -> MeshDocument:
    """Parse the document in `content`; `file` is its name in errors. Raises `MeshError`."""
    try:
        root = toml_lines.parse(content.decode())
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise MeshError(file, [Problem(line, "this is not UTF-8; save the file as UTF-8 text")]) from error
    except toml_lines.TomlSyntaxError as error:
        raise MeshError(file, [Problem(error.line, str(error))]) from error
    reader = Reader(root)
    rules.check(reader.document, reader.tables)
    if reader.problems:
        raise MeshError(file, reader.problems)
    return reader.document


class Reader:
    """Parser of the tree. Invalid entries are left out of `document`, but their names count as defined."""

    fields: type[Fields] = Fields
    """How tables are read; scripts/reference.py records their keys."""

    def __init__(self, root: toml_lines.Node) -> None:
        self.problems: list[Problem] = []
        self.tables = rules.Tables()
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}
        top = self.fields(root, "the file", self.problems)
        self.tables.top = top
        mesh = top.table("mesh", "[mesh]")
        sites = [self._site(table) for table in top.tables("site", "site", "site")]
        tests = [self._test(table) for table in top.tables("test", "test", "test")]
        groups = [self._group(table) for table in top.tables("group", "group", "group")]
        alerts = top.table("alerts", "[alerts]")
        levels = top.table("service_level", "[service_level]")
        budget = top.table("budget", "[budget]")
        top.finish()
        name, home = self._mesh(mesh)
        self.document = MeshDocument(
            name=name,
            home=home,
            sites=tuple(site for site in sites if site is not None),
            tests=tuple(test for test in tests if test is not None),
            groups=tuple(group for group in groups if group is not None),
            alerts={} if alerts is None else self._alerts(alerts),
            service_levels={} if levels is None else self._service_levels(levels),
            budgets={} if budget is None else self._budgets(budget),
        )

    def _mesh(self, table: Fields | None) -> tuple[str, str | None]:
        if table is None:
            if not self.tables.top.has("mesh"):
                self.tables.top.problem('[mesh] is missing; begin the file with [mesh] and name = "…"')
            return "", None
        self.tables.mesh = table
        name = table.text("name", example='"…" (what the pages show)')
        home = table.text("home", default="") or None
        if home is not None:
            self._defined(table, "site", home, table.line_of("home"))
        table.finish()
        return name, home

    def _site(self, table: Fields) -> SiteEntry | None:
        name = self._name(table, "site", example='"…" (in small letters, digits and "-")')
        host_name = name if table.sound else ""
        site = SiteEntry(
            name=name,
            title=table.text("title", default=name),
            latitude_deg=table.number("latitude_deg", low=-90, high=90, example="46.2 (degrees north)"),
            longitude_deg=table.number("longitude_deg", low=-180, high=180, example="6.1 (degrees east)"),
            country=self._country(table),
            region=table.text("region", default=""),
            contact=table.text("contact", default=""),
            has_agent=table.flag("agent", default=True),
            hosts=self._hosts(table, host_name),
        )
        table.finish()
        return site if table.sound else None

    def _country(self, table: Fields) -> str:
        code = table.text("country", example='"CH" (its ISO 3166 code)')
        if code and code not in countries.CODES:
            hint = f'; write "{code.upper()}"' if code.upper() in countries.CODES else '; write two letters, as "CH"'
            table.problem(f'country "{code}" is not an ISO 3166 alpha-2 code{hint}', "country")
        return code

    @staticmethod
    def _uplink(table: Fields, default: str | None) -> str | None:
        """Name of an uplink, unique within its site."""
        name = table.text("uplink", default=default or "")
        if name and not _NAME.fullmatch(name):
            table.problem(
                'uplink: a name has only small letters, digits, "-", "_" and ".", and begins and ends with a letter or '
                "digit",
                "uplink",
            )
        return name or None

    def _hosts(self, site: Fields, host_name: str) -> tuple[HostEntry, ...]:
        uplink = self._uplink(site, None)
        tables = site.tables("host", f"{site.label}: host", "site.host")
        if not tables and not site.has("host"):
            site.problem('it has no host; add [[site.host]] and address = "…" below it')
        hosts = [self._host(table, host_name if index == 0 else None, uplink) for index, table in enumerate(tables)]
        for table in tables:
            site.sound = site.sound and table.sound
        return tuple(hosts)

    def _host(self, table: Fields, default_name: str | None, uplink: str | None) -> HostEntry:
        name = self._name(table, "host", default=default_name, example='"…" (only the first host has its site\'s name)')
        address = table.text("address", example='"…" (an IP address or a DNS name)')
        family = self._family(table, address)
        measures = table.texts("measures", default=HOST_KINDS)
        for kind, line in measures.items():
            table.one_of("measures", kind, HOST_KINDS, line)
        uplink = self._uplink(table, uplink)
        table.finish()
        self._own_address(table, name, address, family)
        return HostEntry(name, address, family, "ping" in measures, "throughput" in measures, uplink)

    def _family(self, table: Fields, address: str) -> addresses.Family:
        spelt = addresses.family_of(address)
        given = table.integer("family", low=4, high=6, default=spelt or 4)
        if given == 5:
            table.problem("family = 5 does not exist; write 4 or 6", "family")
        elif spelt is not None and given != spelt and table.has("family"):
            table.problem(f'family = {given}, but "{address}" is IPv{spelt}; leave the line out', "family")
        return 6 if given == 6 else 4

    def _own_address(self, table: Fields, name: str, address: str, family: int) -> None:
        """Check that an address is valid and unique among hosts."""
        if not address:
            return
        fault = addresses.fault(address)
        if fault is not None:
            table.problem(fault, "address")
            return
        key = (addresses.canonical(address), family)
        other, line = self._addresses.setdefault(key, (name, table.line_of("address")))
        if line != table.line_of("address"):
            table.problem(
                f'address "{address}" is already that of host "{other}" (line {line}); each host has its own', "address"
            )

    def _test(self, table: Fields) -> TestEntry | None:
        name = self._name(table, "test", example='"…"')
        kind = table.text("kind", example=quoted(MESH_KINDS))
        if not kind or not table.one_of("kind", kind, MESH_KINDS):
            return None
        test = MESH_KINDS[kind].read(table, name)
        table.finish()
        return test if table.sound else None

    def _group(self, table: Fields) -> GroupEntry | None:
        name = self._name(table, "group", example='"…"')
        shape = table.text("shape", example='"mesh", "star" or "between"')
        tests = self._references(table, "tests", "test")
        if not shape or not table.one_of("shape", shape, SHAPES):
            return None
        members = {key: self._references(table, key, "site") for key in SHAPES[shape]}
        table.finish()
        return GroupEntry(name, shape, members, tests) if table.sound else None

    def _references(self, table: Fields, key: str, kind: str) -> tuple[str, ...]:
        """Names in list `key`, each of which must be a defined `kind`."""
        names = table.texts(key, example=f"[ … ] (the names of {kind}s)")
        for name, line in names.items():
            self._defined(table, kind, name, line)
        return tuple(names)

    def _alerts(self, table: Fields) -> dict[str, Any]:
        """Parse [alerts]; returns only the keys that are set."""
        specials = table.tables(alert_rules.FOR, "[[alerts.for]]", "alerts.for")
        told = table.tables(notify_routes.NOTIFY, "[[alerts.notify]]", "alerts.notify")
        alerts = self._rules(table, "alerts")
        if told:
            alerts[notify_routes.NOTIFY] = [self._notify(route) for route in told]
        return alerts | ({alert_rules.FOR: [self._special(special) for special in specials]} if specials else {})

    def _notify(self, table: Fields) -> dict[str, Any]:
        """Parse an [[alerts.notify]] table: channel, severity, schedule and paths."""
        route: dict[str, Any] = {"channel": table.text("channel", example='"…" (a name in SOUNDINGS_NOTIFY_URLS)')}
        if route["channel"] and not _NAME.fullmatch(route["channel"]):
            table.problem(
                'channel: write the name of a channel in SOUNDINGS_NOTIFY_URLS, as "oncall"; its URL stays there, '
                "since it holds secrets",
                "channel",
            )
        severity = self._severity(table)
        digest, zone = table.text("digest", default=""), table.text("zone", default="")
        if digest and not notify_routes.DIGEST.fullmatch(digest):
            table.problem(f'digest = "{digest}" is not a time of day; write it as "07:00"', "digest")
        if zone and zone not in available_timezones():
            table.problem(f'zone "{zone}" is not known; write it as "Europe/Zurich"', "zone")
        if zone and not digest and table.sound:
            table.problem('zone is for a digest; add digest = "07:00", or leave the line out', "zone")
        route |= {key: value for key, value in (("severity", severity), ("digest", digest), ("zone", zone)) if value}
        if any(table.has(key) for key in (*alert_rules.SELECTORS, alert_rules.PATH)):
            route |= self._selectors(table)
        else:
            self._ask_selectors(table)
        table.finish()
        return route

    @staticmethod
    def _ask_selectors(table: Fields) -> None:
        """Register the selector keys, so that the error for a misspelt key suggests them."""
        for key in (*alert_rules.SELECTORS, alert_rules.PATH):
            table.text(key, default="")

    def _severity(self, table: Fields) -> str:
        severity = table.text(alert_rules.SEVERITY, default="")
        if severity:
            line = table.line_of(alert_rules.SEVERITY)
            table.one_of(alert_rules.SEVERITY, severity, alert_rules.SEVERITIES, line)
        return severity

    def _special(self, table: Fields) -> dict[str, Any]:
        """Parse an [[alerts.for]] table: selectors, and the rules for these paths."""
        return self._selectors(table) | self._rules(table, "alerts.for")

    def _selectors(self, table: Fields) -> dict[str, Any]:
        """Parse the keys that select paths."""
        selectors: dict[str, Any] = {}
        for key in alert_rules.SELECTORS:
            name = table.text(key, default="")
            if name:
                selectors[key] = name
                self._defined(table, "group" if key == "group" else "site", name, table.line_of(key))
        if table.has(alert_rules.PATH):
            selectors[alert_rules.PATH] = self._hosts_of_a_path(table)
        if not selectors:
            table.problem('it does not say for which paths; write group, from, to or path, as in group = "…"')
        return selectors

    def _hosts_of_a_path(self, table: Fields) -> list[str]:
        """Hosts of `path = [source, destination]`."""
        hosts = table.texts(alert_rules.PATH, default=())
        for name, line in hosts.items():
            self._defined(table, "host", name, line)
        if len(hosts) != 2 and table.sound:
            table.problem(
                f'path has {len(hosts)} host{"s" if len(hosts) > 1 else ""}; write two, as in path = ["slac", "cern"] '
                "(from one host to another)",
                alert_rules.PATH,
            )
        elif len(hosts) == 2:
            source, destination = hosts
            self.tables.paths.append((table, source, destination))
        return list(hosts)

    def _service_levels(self, table: Fields) -> dict[str, Any]:
        """Parse [service_level]; returns only the keys that are set."""
        specials = table.tables(alert_rules.FOR, "[[service_level.for]]", "service_level.for")
        targets = self._targets(table)
        if not specials:
            return targets
        return targets | {alert_rules.FOR: [self._selectors(special) | self._targets(special) for special in specials]}

    def _targets(self, table: Fields) -> dict[str, Any]:
        values = {key: self._target(table, key, limits) for key, limits in service_levels.KEYS.items()}
        table.finish()
        return {key: value for key, value in values.items() if table.has(key)}

    @staticmethod
    def _target(table: Fields, key: str, limits: alert_rules.Bounds) -> float:
        value = table.number(key, low=limits.low, high=limits.high, default=limits.high)
        if limits.are_open and value in (limits.low, limits.high) and table.has(key) and table.sound:
            table.problem(f"{key} = {value:g} leaves no room; write more than {limits.low:g} and less than 1", key)
        return value

    @staticmethod
    def _budgets(table: Fields) -> dict[str, dict[str, float]]:
        """Parse [budget]: for each scope the keys that are set."""
        scopes = {scope: table.table(scope, f"[budget.{scope}]") for scope in budgets.SCOPES}
        table.finish()
        limits = {}
        for scope, of_scope in scopes.items():
            if of_scope is not None:
                values = {
                    key: of_scope.number(key, low=0, high=high, default=high) for key, high in budgets.KEYS.items()
                }
                of_scope.finish()
                limits[scope] = {key: value for key, value in values.items() if of_scope.has(key)}
        return limits

    def _rules(self, alerts: Fields, header: str) -> dict[str, Any]:
        tables = {name: alerts.table(name, f"[{header}.{name}]") for name in alert_rules.RULES}
        alerts.finish()
        return {name: self._rule(table, name) for name, table in tables.items() if table is not None}

    def _rule(self, table: Fields, name: str) -> dict[str, Any]:
        keys = dict(alert_rules.keys_of(alert_rules.RULES[name]))
        values: dict[str, Any] = {key: self._rule_key(table, key, of) for key, of in keys.items()}
        values[alert_rules.SEVERITY] = self._severity(table)
        table.finish()
        for key, of in keys.items():
            if of.holds_a_cycle and table.sound and table.has(key):
                self.tables.windows.append((table, key, int(values[key])))
        return {key: value for key, value in values.items() if table.has(key)}

    @staticmethod
    def _rule_key(table: Fields, key: str, of: alert_rules.Key) -> bool | float:
        if of.limits is None:
            return table.flag(key, default=bool(of.default))
        low, high = of.limits.low, of.limits.high
        if isinstance(of.default, int):
            return table.integer(key, low=int(low), high=int(high), default=of.default)
        value = table.number(key, low=low, high=high, default=of.default)
        if of.limits.are_open and value in (low, high):
            table.problem(
                f"{key} = {value:g} would fire always or never; write more than {low:g} and less than {high:g}, as "
                f"{of.default:g}",
                key,
            )
        return value

    def _name(self, table: Fields, kind: str, *, example: str, default: str | None = None) -> str:
        """Name of an entry: well formed, and unique for its kind."""
        name = table.text("name", default=default, example=example)
        if not name:
            return name
        table.label = f'{table.label} "{name}"'
        pattern = _SITE_NAME if kind == "site" else _NAME
        if table.has("name") and not pattern.fullmatch(name):
            marks = ' and "-"' if kind == "site" else ', "-", "_" and "."'
            table.problem(
                f"a name has only small letters, digits{marks}, and begins and ends with a letter or digit", "name"
            )
        if (kind, name) == ("test", ON_DEMAND):
            table.problem(f'"{ON_DEMAND}" is reserved for on-demand tests; choose another', "name")
        first = self.tables.entries.setdefault((kind, name), table)
        if first is not table:
            there = first.line_of("name")
            table.problem(f"line {there} defines a {kind} of the same name; choose another", "name")
        return name

    def _defined(self, table: Fields, kind: str, name: str, line: int) -> None:
        names = self.tables.names(kind)
        # A missing kind has been reported already.
        if names and name not in names:
            table.problem(f'{kind} "{name}" is not defined{suggestion(name, names, f"; add [[{kind}]]")}', line=line)
