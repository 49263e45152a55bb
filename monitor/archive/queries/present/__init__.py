"""What the present of a path is followed from: the bursts that have arrived, with the order of their packets."""
