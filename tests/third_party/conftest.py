"""These packages are installed and run by tests/test_third_party_*.py; their tests are not collected from here."""

collect_ignore_glob = ["*/*"]
