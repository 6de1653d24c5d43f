"""What several quantizers share: cosines, indexes of keys. A library: it registers nothing, has no entry point."""
