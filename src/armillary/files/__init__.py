"""Vectors from files, and folders of results written whole or not at all."""
