"""Routes on the path page: strip, list, hops, differences."""
