"""Compiled work on depth images and normals."""
