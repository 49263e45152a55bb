"""Measures networks from where it runs: pings, throughput tests, a site's agent, a lab. Never imports the centre."""

__version__ = "0.1.0"
