"""`manage.py user …`: accounts, roles, read limits, and tokens of programs."""

from __future__ import annotations

import getpass
import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from monitor.accounts import read_limits
from monitor.accounts.models import ReadLimit, UserToken, issue_user_token, token_digest
from monitor.accounts.read_limits import NOWHERE, PlaceNames, UnknownPlace
from monitor.accounts.roles import Action, Role, give_role, may, roles_of
from probes.commands.own_command import MANAGE
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted

ROLES = [str(role) for role in Role]


class Command(BaseCommand):
    help = "Add users, set their roles, and create tokens for their programs."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="action", required=True)
        add = add_subcommand(verbs, "add", "create an account; asks for the password, or reads it from standard input")
        add.add_argument("name", help="name of the account")
        add.add_argument("--role", required=True, choices=ROLES, help="role of the account")
        role = add_subcommand(verbs, "role", "set the role of an account")
        role.add_argument("name", help="name of the account")
        role.add_argument("role", choices=ROLES, help="the new role")
        remove = add_subcommand(verbs, "remove", "delete an account, its sessions and its tokens")
        remove.add_argument("name", help="name of the account")
        listing = add_subcommand(verbs, "list", "list accounts with their roles and tokens")
        listing.add_argument("--json", action="store_true", dest="as_json", help="print a JSON list")
        token = add_subcommand(verbs, "token", "create a token for a program that reads the API, and print it")
        token.add_argument("name", help="the account that owns the token")
        token.add_argument("--for", dest="purpose", metavar="PURPOSE", default="a program", help="purpose of the token")
        token.add_argument(
            "--operate",
            action="store_true",
            help="allow it to acknowledge, silence and schedule maintenance",
        )
        _add_places(token)
        limit = add_subcommand(verbs, "limit", "limit an account or a role to the paths between some sites")
        limit.add_argument("name", nargs="?", help="name of the account")
        limit.add_argument("--role", choices=ROLES, help="the role to limit, instead of an account")
        limit.add_argument("--none", action="store_true", help="remove the limit: all sites may be read")
        _add_places(limit)
        revoke = add_subcommand(verbs, "revoke", "revoke the tokens of an account")
        revoke.add_argument("name", help="name of the account")
        revoke.add_argument("--for", dest="purpose", metavar="PURPOSE", help="only tokens for this purpose")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "list":
            self._list(as_json=options["as_json"])
        elif action == "add":
            self._add(options["name"], options["role"])
        elif action == "limit":
            self._limit(options)
        else:
            getattr(self, f"_{action}")(_account(options["name"]), options)

    def _add(self, name: str, role: str) -> None:
        if User.objects.filter(username=name).exists():
            raise CommandError(f"{name} has an account already; `{MANAGE} user role {name} {role}` changes its role")
        user = User(username=name)
        try:
            user.full_clean(exclude=["password"])
            password = _read_password()
            validate_password(password, user)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        user.set_password(password)
        with transaction.atomic():
            user.save()
            give_role(user, Role(role))
        self.stdout.write(f"{name}: account created, {role}")

    def _role(self, user: User, options: dict[str, Any]) -> None:
        give_role(user, Role(options["role"]))
        self.stdout.write(f"{user.username}: role set to {options['role']}")

    def _remove(self, user: User, _: dict[str, Any]) -> None:
        user.delete()
        self.stdout.write(f"{user.username}: account and tokens deleted")

    def _token(self, user: User, options: dict[str, Any]) -> None:
        may_operate, places = options["operate"], _places(options)
        if may_operate and not may(user, Action.OPERATE):
            raise CommandError(f"{user.username} may not operate: `{MANAGE} user role {user.username} operator`")
        with transaction.atomic():
            token = issue_user_token(user.pk, options["purpose"], timezone.now(), may_operate=may_operate)
            if places != NOWHERE:
                _store_limit(places, token=UserToken.objects.get(digest=token_digest(token)))
        self.stdout.write(token)
        verbs = "read and operate" if may_operate else "read"
        self.stderr.write(f"shown once; send it as Authorization: Bearer TOKEN. It may {verbs} as {user.username}")

    def _limit(self, options: dict[str, Any]) -> None:
        name, role, places = options["name"], options["role"], _places(options)
        if (name is None) == (role is None):
            raise CommandError("name an account, or a role with --role")
        if options["none"] == (places != NOWHERE):
            raise CommandError("give the sites with --site and --group, or --none to remove the limit")
        reader = {"role": role} if name is None else {"user": _account(name)}
        if options["none"]:
            ReadLimit.objects.filter(**reader).delete()
            self.stdout.write(f"{name or role}: may read all sites")
        else:
            _store_limit(places, **reader)
            self.stdout.write(f"{name or role}: limited to {places}")

    def _revoke(self, user: User, options: dict[str, Any]) -> None:
        tokens = UserToken.objects.filter(user=user, revoked_at=None)
        if options["purpose"] is not None:
            tokens = tokens.filter(name=options["purpose"])
        count = tokens.update(revoked_at=timezone.now())
        self.stdout.write(f"{user.username}: {counted(count, 'token')} revoked")

    def _list(self, *, as_json: bool) -> None:
        rows: list[dict[str, Any]] = [
            {
                "name": user.username,
                "roles": [str(role) for role in roles_of(user)],
                "limit": _limit_text(user),
                "tokens": list(UserToken.objects.filter(user=user, revoked_at=None).values_list("name", flat=True)),
            }
            for user in User.objects.order_by("username")
        ]
        if as_json:
            self.stdout.write(json.dumps(rows))
            return
        for row in rows:
            roles, tokens = ", ".join(row["roles"]) or "no role", ", ".join(row["tokens"]) or "none"
            limit = "" if row["limit"] is None else f"; limited to {row['limit'] or 'nothing'}"
            self.stdout.write(f"{row['name']:<20} {roles:<10} tokens: {tokens}{limit}")


def _account(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"{name} has no account; `{MANAGE} user list` lists all accounts")
    return user


def _add_places(parser: ArgumentParser) -> None:
    for name in ("group", "site"):
        text = f"a {name} of the mesh that it may read, with others so named; repeat for several"
        parser.add_argument(f"--{name}", action="append", default=[], metavar=name.upper(), help=text)


def _places(options: dict[str, Any]) -> PlaceNames:
    return PlaceNames(tuple(options["site"]), tuple(options["group"]))


def _limit_text(user: User) -> str | None:
    places = read_limits.limits_of(user)
    return None if places is None else str(places)


def _store_limit(places: PlaceNames, **reader: Any) -> None:
    try:
        read_limits.store(places, **reader)
    except UnknownPlace as error:
        raise CommandError(str(error)) from error


def _read_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise CommandError("passwords do not match; no account created")
    return password
