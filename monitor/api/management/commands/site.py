"""`manage.py site token NAME… [--out FILE | --out-dir DIR]` and `site revoke NAME`: the tokens that agents show to the
centre."""

from __future__ import annotations

import difflib
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from monitor.api.models import AgentToken, issue_token, token_digest
from monitor.mesh.models import Site


class Command(BaseCommand):
    help = "Make or revoke the tokens of a site's agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        token = commands.add_parser("token", help="make a token for the site's agent and print it")
        token.add_argument("names", nargs="+", metavar="NAME", help="the site, as in mesh.toml")
        where = token.add_mutually_exclusive_group()
        where.add_argument(
            "--out", type=Path, metavar="FILE", help="write it there, readable by the owner only; a valid one is kept"
        )
        where.add_argument("--out-dir", type=Path, metavar="DIR", help="the same, for each site as DIR/NAME/token")
        revoke = commands.add_parser("revoke", help="make all tokens of the site's agent invalid")
        revoke.add_argument("name", help="the site, as in mesh.toml")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "revoke":
            self._revoke(_site_named(options["name"]))
        else:
            self._token([_site_named(name) for name in options["names"]], options["out"], options["out_dir"])

    def _token(self, sites: list[Site], out: Path | None, out_dir: Path | None) -> None:
        if out_dir is None and len(sites) > 1:
            raise CommandError("the tokens of several sites want a folder: --out-dir DIR")
        for site in sites:
            if out_dir is not None:
                self._write(site, out_dir / site.name / "token")
            elif out is not None:
                self._write(site, out)
            else:
                self.stdout.write(_issue(site))

    def _revoke(self, site: Site) -> None:
        count = AgentToken.objects.filter(site=site, revoked_at=None).update(revoked_at=timezone.now())
        self.stdout.write(f"{site.name}: {count} token{'' if count == 1 else 's'} revoked")

    def _write(self, site: Site, out: Path) -> None:
        try:
            if _holds_valid_token(out, site):
                self.stdout.write(f"{site.name}: the token in {out} is valid and kept")
                return
            out.parent.mkdir(parents=True, exist_ok=True)
            with transaction.atomic():
                _write_private(out, _issue(site))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{out}: {error}; give a file that can be written") from error
        self.stdout.write(f"{site.name}: a new token is in {out}")


def _site_named(name: str) -> Site:
    """The site. Raises `CommandError` where it is unknown, retired or has no agent."""
    names = list(Site.objects.filter(retired_at=None, has_agent=True).values_list("name", flat=True))
    if name in names:
        return Site.objects.get(name=name)
    if Site.objects.filter(name=name, retired_at=None).exists():
        raise CommandError(f'site "{name}" has no agent; set agent = true in mesh.toml and apply it')
    close = difflib.get_close_matches(name, names, n=1)
    known = f'did you mean "{close[0]}"?' if close else f"sites with an agent: {', '.join(names) or 'none'}"
    raise CommandError(f'site "{name}" is not in the mesh ({known}); `manage.py mesh apply FILE` adds sites')


def _issue(site: Site) -> str:
    return issue_token(site.pk, timezone.now())


def _holds_valid_token(path: Path, site: Site) -> bool:
    if not path.exists():
        return False
    digest = token_digest(path.read_text().strip())
    return AgentToken.objects.filter(site=site, digest=digest, revoked_at=None).exists()


def _write_private(path: Path, token: str) -> None:
    """Replace the file at once; nobody but the owner can read it at any moment."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    fresh.replace(path)
