"""Other people's clients, unmodified: each file serves the subset of one vendor's interface they use."""
