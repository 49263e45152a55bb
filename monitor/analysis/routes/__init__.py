"""Compare routes, separate changes from load balancing, and locate loss and delay along them. Pure;
docs/method/routes.md has methods, sources and scores."""
