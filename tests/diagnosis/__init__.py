"""Transfers with a known limit, made in the lab, and their diagnosis.

`python -m tests.scored diagnosis` repeats each and prints how often the verdict was right; the runs in
`tests/fixtures/iperf3/diagnosis` were saved by it. `tests/net/test_diagnosis.py` runs each once.
"""
