"""Throughput tests that are much slower than those before, until a rule can judge them."""
