"""Environments in processes of their own, with time limits. A package that plugins share; it offers none."""
