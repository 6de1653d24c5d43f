"""A mutation run: what `tests/mutation.py` is made of."""
