"""Mixtures of von Mises-Fisher laws, and the seed's baseline for counts."""
