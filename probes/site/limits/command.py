"""`python -m probes site limits`: limits in force and their use today. Exit status 1 if a file cannot be used."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

import msgspec

from probes.quantities import with_unit
from probes.site.limits.read import LimitsError, Rule, read_limits, rules
from probes.site.limits.usage import UsageError, read_usage, usage_of_day
from probes.site.settings import limits_file, usage_file
from probes.toml.keys import to_toml


def run(args: argparse.Namespace) -> int:
    """0 when the rules could be read, else 1."""
    data = args.data.resolve()
    file = limits_file(data, getattr(args, "limits", None))
    try:
        limits = read_limits(file)
        used_s, used_bits = usage_of_day(read_usage(usage_file(data)), datetime.now(UTC))
    except (LimitsError, UsageError) as error:
        print(f"site: limits: {error}", file=sys.stderr)
        return 1
    if args.json:
        fields = {
            "file": None if file is None else str(file),
            "rules": {rule.name: rule.value for rule in rules(limits)},
            "used_today": {"throughput_minutes": used_s / 60, "throughput_bits": used_bits},
        }
        print(msgspec.json.encode(fields).decode())
        return 0
    print(f"limits in {file}" if file is not None else f"no limits.toml in {data}: defaults apply")
    print("\n".join(_line(rule) for rule in rules(limits)))
    print(f"used today (UTC): {used_s / 60:.1f} minutes and {with_unit(used_bits, 'bit')} of throughput tests")
    return 0


def _line(rule: Rule) -> str:
    value = "no limit" if rule.value is None else to_toml(rule.value)
    where = " (default)" if rule.is_default else ""
    return f"{rule.name:<33} {value}{where}: {rule.meaning}"
