"""Column types that Django does not have."""

from __future__ import annotations

from typing import Any

from django.db import models


class RealField(models.FloatField):
    """Float in PostgreSQL's four-byte `real`: seven digits, 10 ns of 100 ms."""

    def db_type(self, connection: Any) -> str:
        return "real"


class MultirangeField(models.Field):
    """Set of integers as PostgreSQL's `int8multirange`; contiguous ranges are stored as one."""

    def db_type(self, connection: Any) -> str:
        return "int8multirange"
