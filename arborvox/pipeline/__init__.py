"""Whole experiments: stages that are done once, kept while nothing changes, and resumed."""
