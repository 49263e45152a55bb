"""A path's packets as a sequence of stretches, each with one loss: clean, lossy or dead.

Gilbert's chain ("Capacity of a burst-noise channel", 1960): lost with probability q after a received packet and s after
a lost one, loss ratio q / (q + 1 - s), beta priors.
"""
