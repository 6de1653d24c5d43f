"""Commonsense graphs for agents that use one. A library: it registers nothing and has no entry point."""
