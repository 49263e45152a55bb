"""Published TCP measurements on long paths, reproduced in the lab and compared.

`python -m tests.reproduce [NAME…]`. `transfer.py` runs a transfer over the lab's path and measures it, `ends.py` is the
program at its two ends; `loss.py`, `in2p3.py`, `sc2000.py`, `nersc.py` and `atm.py` are a reproduction each; `table.py`
is their result, and writes it into docs/method/reproduce.md.
"""
