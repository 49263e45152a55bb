"""The begin and the end of incidents by their bursts, which the columns of the evidence rest on."""
