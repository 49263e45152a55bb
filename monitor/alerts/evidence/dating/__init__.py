"""The begin and the end of incidents by their bursts, between which the evidence counts."""
