"""Speed, memory and quality beside peers, as ratios in one run. Time is measured here and never asserted in tests."""
