"""Convert NumPy columns for the database, with None for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def nullable(values: NDArray[Any]) -> list[Any]:
    """Convert to a list with None for NaN."""
    listed = values.tolist()
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return listed
    return [None if value != value else value for value in listed]
