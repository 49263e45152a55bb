"""What strangers send, broken at random: each reader gives a result or its own error with a sentence, and stays small.

`make fuzz` reads 5,000 inputs of each sort with a new seed, which it prints; the other runs read 300 with the seed 1.
"""
