"""A trained model inside ELAN: its extension, and what speaks with ELAN while it runs."""

from arborvox.elan.plugin import write_plugin

__all__ = ["write_plugin"]
