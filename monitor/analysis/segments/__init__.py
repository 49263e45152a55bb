"""A path's packets as a row of stretches, each with one loss: clean, lossy or dead.

Within a stretch packets follow Gilbert's chain ("Capacity of a burst-noise channel", 1960): one is lost with the
probability q after a received packet and s after a lost one, so that the loss ratio is q / (q + 1 - s). Four sums of a
burst are sufficient (`chain_sums`). With beta priors for q and s the marginal likelihood of a stretch is a product of
beta functions (`stretches`), with runs of lost packets in it. `loss_filter` follows the stretches of all paths as
bursts come; `look_back` dates the newest loss of a path exactly.

The RTT of a path is a row of stretches too, each of one level (`delay_filter`).
"""
