"""Dirichlet process mixtures by split/merge sampling."""
