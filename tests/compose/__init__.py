"""docker-compose.yml run for real: `python -m tests.compose`, as root on Debian 12.

An engine of its own with images that stand in for those that a registry would give; `checks` holds what must be true.
"""
