"""Database columns: the largest number of each integer type, and NumPy columns with None for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_SMALLINT = 2**15 - 1
LARGEST_INTEGER = 2**31 - 1
LARGEST_BIGINT = 2**63 - 1


def nullable(values: NDArray[Any]) -> list[Any]:
    """A list with None for NaN."""
    listed = values.tolist()
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return listed
    return [None if value != value else value for value in listed]
