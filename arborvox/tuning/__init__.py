"""Weights of a search, tuned on a development set: hypotheses once, then a grid of re-rankings."""
