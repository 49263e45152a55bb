"""Keep routes of paths, and the periods of their flows."""
