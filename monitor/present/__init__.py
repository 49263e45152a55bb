"""What each path is like now, derived once from its newest bursts; everything said of the present is read here."""
