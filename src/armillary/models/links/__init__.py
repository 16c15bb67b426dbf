"""Links: one vector at a time."""
