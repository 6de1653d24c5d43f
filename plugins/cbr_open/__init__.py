"""Runs to start and to look at from Python; see `cbr_open.door`. A package that plugins share; it offers none."""
