"""Routes of paths: compare them, tell changes from load balancing, and locate loss and delay along them.

Pure: addresses, counts and times in, values out; no database, no clock. docs/method/routes.md has the methods, their
sources and their scores on simulated networks.
"""
