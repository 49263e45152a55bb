"""The users' API about routes, as JSON and CSV."""
