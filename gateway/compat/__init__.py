"""Other people's clients, unmodified: a file per vendor serves the subset they use."""
