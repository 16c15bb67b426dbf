"""Compiled work on rows and their clusters."""
