"""What makes, checks and measures a release; nothing here is shipped."""
