from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

# IUGG mean radius R1.
MEAN_EARTH_RADIUS_KM = 6371.0088


def great_circle_km(
    latitude_a_deg: float, longitude_a_deg: float, latitude_b_deg: float, longitude_b_deg: float
) -> float:
    """Great-circle distance in km by the haversine formula (Sinnott, "Virtues of the haversine", 1984)."""
    latitude_a, latitude_b = radians(latitude_a_deg), radians(latitude_b_deg)
    across = radians(longitude_b_deg - longitude_a_deg)
    haversine = sin((latitude_b - latitude_a) / 2) ** 2 + cos(latitude_a) * cos(latitude_b) * sin(across / 2) ** 2
    return 2 * MEAN_EARTH_RADIUS_KM * asin(sqrt(min(1.0, haversine)))
