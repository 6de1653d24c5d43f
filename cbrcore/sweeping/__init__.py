"""What `cbr sweep` does: the runs of a recipe's sweep, each in a folder of its own, executed by a launcher.

Nothing here imports torch: the runs are processes of their own.
"""
