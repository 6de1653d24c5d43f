"""What several quantizers and memories share: cosines, indexes of keys, tables. A library: it registers nothing,
has no entry point."""
