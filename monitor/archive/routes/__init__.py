"""Keep the routes of paths, and the periods in which their flows took them."""
