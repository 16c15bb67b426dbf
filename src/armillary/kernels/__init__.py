"""Score, choose, accumulate: the work on N rows, written once per device."""
