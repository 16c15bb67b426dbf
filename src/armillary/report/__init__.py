"""The page of a clustering: one self-contained HTML file."""
