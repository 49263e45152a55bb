"""The past that the rules compare the newest measurements with."""
