"""What is kept of the rows of a cluster."""
