"""What was published about TCP on long paths, made again in the lab and set beside it.

`python -m tests.reproduce [NAME…]`. `transfer.py` runs one transfer over the lab's path and measures it, `ends.py` is
the program at its two ends; `loss.py`, `in2p3.py`, `sc2000.py`, `nersc.py` and `atm.py` are one reproduction each;
`table.py` is what they give, and how it gets into docs/method/reproduce.md.
"""
