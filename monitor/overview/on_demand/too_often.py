"""The refusal of requests on demand above the rate limit of a user."""

from __future__ import annotations

import math
from typing import ClassVar


class TooOften(Exception):
    """The user is above the rate limit; `wait_s` is the time until the next request. Subclasses name the `requests`."""

    requests: ClassVar[str]

    def __init__(self, wait_s: float) -> None:
        self.wait_s = math.ceil(wait_s)
        super().__init__(f"too many {self.requests}; wait {self.wait_s} s")
