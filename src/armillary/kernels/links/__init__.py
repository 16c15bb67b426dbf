"""Compiled steps of Links."""
