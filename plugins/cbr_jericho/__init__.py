"""Jericho: the interactive fiction games of the benchmark [P §6.2]."""
