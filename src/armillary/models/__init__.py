"""The models, one per file, all of one shape."""
