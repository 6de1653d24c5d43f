"""Torch layers that several agents share. A library: it registers nothing and has no entry point."""
