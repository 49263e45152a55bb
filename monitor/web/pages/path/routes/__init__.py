"""Routes on the path page: the strip under the smoke chart, the list of routes, their hops, and their differences."""
