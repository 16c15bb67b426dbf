"""Clusterers by directions: k-means on the sphere and its kin that find K."""
