"""docker-compose.yml in real containers: `python -m tests.compose`, as root on Debian 12.

A separate engine with base images built here instead of those of a registry; `checks` has the requirements.
"""
