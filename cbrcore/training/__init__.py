"""Losses, pretraining, the training loop and checkpoints. From here down torch is imported."""
