"""`manage.py site …`: list sites and agents; create and revoke tokens (`enrol`, `rotate`, `token`, `revoke`)."""

from __future__ import annotations

import difflib
import json
import os
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from monitor.accounts.models import token_digest
from monitor.agents.enrolment import LIFETIME, issue_code, withdraw_codes
from monitor.agents.models import AgentToken, issue_token
from monitor.database_errors import reported_to_user
from monitor.environment import LOOPBACK_HOSTS, is_loopback
from monitor.mesh.models import Site
from monitor.mesh.renaming import current_names
from monitor.stack.site_listing import as_text, site_rows
from probes.commands.own_command import INSTALLED_AS, MANAGE, is_installed
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted

HOUR = timedelta(hours=1)
LONGEST_HOURS = 24 * 30


class Command(BaseCommand):
    help = "List sites; create, replace or revoke the tokens of their agents."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        listing = add_subcommand(commands, "list", "list the sites with the state of their agents, worst first")
        listing.add_argument("--json", action="store_true", dest="as_json", help="print a JSON list")
        for name, summary in (
            ("enrol", "print the command by which the site joins, with a one-time code"),
            ("rotate", "print that command for an enrolled site; its earlier tokens are revoked once the code is used"),
        ):
            verb = add_subcommand(commands, name, summary)
            verb.add_argument("name", help="the site, as in mesh.toml")
            verb.add_argument(
                "--url",
                help="URL of this centre as the site reaches it, or several as URL,URL; default SOUNDINGS_PUBLIC_URL",
            )
            verb.add_argument(
                "--hours",
                type=int,
                default=LIFETIME // HOUR,
                help="code valid for this many hours (default %(default)s)",
            )
        token = add_subcommand(commands, "token", "create a token for the site's agent and print it")
        token.add_argument("names", nargs="+", metavar="NAME", help="the site, as in mesh.toml")
        where = token.add_mutually_exclusive_group()
        where.add_argument(
            "--out", type=Path, metavar="FILE", help="write it to FILE, readable by the owner only; keeps a valid token"
        )
        where.add_argument("--out-dir", type=Path, metavar="DIR", help="the same, for each site as DIR/NAME/token")
        revoke = add_subcommand(commands, "revoke", "revoke all tokens of the site's agent, and its code")
        revoke.add_argument("name", help="the site, as in mesh.toml")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "list":
            self._list(as_json=options["as_json"])
        elif action == "revoke":
            self._revoke(_site_named(options["name"]))
        elif action in ("enrol", "rotate"):
            self._print_command(_site_named(options["name"]), action == "rotate", options["url"], options["hours"])
        else:
            self._token([_site_named(name) for name in options["names"]], options["out"], options["out_dir"])

    def _list(self, *, as_json: bool) -> None:
        with reported_to_user():
            rows = site_rows(timezone.now())
        if as_json:
            self.stdout.write(json.dumps(rows))
            return
        self.stdout.write("\n".join(as_text(rows)) if rows else f"no sites; `{MANAGE} mesh apply FILE` adds sites")

    def _print_command(self, site: Site, replaces_tokens: bool, url: str | None, hours: int) -> None:
        has_token = AgentToken.objects.filter(site=site, revoked_at=None).exists()
        if has_token and not replaces_tokens:
            raise CommandError(
                f"{site.name} has a token already; `{MANAGE} site rotate {site.name}` replaces it,"
                f" `site revoke {site.name}` ends it"
            )
        if not 1 <= hours <= LONGEST_HOURS:
            raise CommandError(f"--hours {hours}: write 1 to {LONGEST_HOURS}")
        code = issue_code(site.pk, timezone.now(), lifetime=timedelta(hours=hours), replaces_tokens=replaces_tokens)
        centre = url or _own_url()
        self.stdout.write(f"{_agent_command()} join {centre} {code}")
        if any(map(is_loopback, centre.split(","))):
            self.stderr.write(f"{centre} leads to this machine only: set SOUNDINGS_PUBLIC_URL, or give --url")
        self.stderr.write(f"run this at {site.name}; the code works once, valid for {hours} hours")

    def _token(self, sites: list[Site], out: Path | None, out_dir: Path | None) -> None:
        if out_dir is None and len(sites) > 1:
            raise CommandError("several sites need a folder: --out-dir DIR")
        for site in sites:
            if out_dir is not None:
                self._write(site, out_dir / site.name / "token")
            elif out is not None:
                self._write(site, out)
            else:
                self.stdout.write(_issue(site))

    def _revoke(self, site: Site) -> None:
        now = timezone.now()
        # The code first: this waits for a concurrent redemption, whose token is then revoked too.
        withdraw_codes(site.pk, now)
        count = AgentToken.objects.filter(site=site, revoked_at=None).update(revoked_at=now)
        self.stdout.write(f"{site.name}: {counted(count, 'token')} revoked")

    def _write(self, site: Site, out: Path) -> None:
        if out.exists() and not out.is_file():
            # As root, the new file would take the place of a device.
            raise CommandError(f"{out}: not a regular file; choose another name")
        try:
            if _holds_valid_token(out, site):
                self.stdout.write(f"{site.name}: kept the valid token in {out}")
                return
            out.parent.mkdir(parents=True, exist_ok=True)
            with transaction.atomic():
                _write_private(out, _issue(site))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{out}: {error}; give a file that can be written") from error
        self.stdout.write(f"{site.name}: new token written to {out}")


def _site_named(name: str) -> Site:
    """Raises `CommandError`."""
    names = list(Site.objects.filter(retired_at=None, has_agent=True).values_list("name", flat=True))
    if name in names:
        return Site.objects.get(name=name)
    if Site.objects.filter(name=name, retired_at=None).exists():
        raise CommandError(f'site "{name}" has no agent; set agent = true in mesh.toml and apply it')
    renamed = current_names([name])
    if renamed:
        raise CommandError(f'site "{name}" is now "{renamed[name]}"')
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"sites with an agent: {', '.join(names) or 'none'}"
    raise CommandError(f'site "{name}" is not in the mesh ({hint}); `{MANAGE} mesh apply FILE` adds sites')


def _own_url() -> str:
    """SOUNDINGS_PUBLIC_URL, else our first public host name, else `manage.py up`'s URL."""
    if not is_loopback(settings.PUBLIC_URL):
        return str(settings.PUBLIC_URL)
    names = [name for name in settings.ALLOWED_HOSTS if name not in LOOPBACK_HOSTS and not name.startswith(("*", "."))]
    return f"https://{names[0]}" if names else settings.PUBLIC_URL


def _agent_command() -> str:
    # Agent command as here: by the installed program or from a clone.
    return INSTALLED_AS if is_installed() else "python -m probes site"


def _issue(site: Site) -> str:
    return issue_token(site.pk, timezone.now())


def _holds_valid_token(path: Path, site: Site) -> bool:
    if not path.exists():
        return False
    digest = token_digest(path.read_text().strip())
    return AgentToken.objects.filter(site=site, digest=digest, revoked_at=None).exists()


def _write_private(path: Path, token: str) -> None:
    # Replace the file atomically; only the owner can ever read it.
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    fresh.replace(path)
