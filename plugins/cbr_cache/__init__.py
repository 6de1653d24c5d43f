"""Caches on disk that cannot lie: entries carry a checksum and what made them. A library: it registers nothing."""
