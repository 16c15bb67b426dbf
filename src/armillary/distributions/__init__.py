"""Densities, normalisers, samplers and posteriors of the laws the models are made of; no mixtures."""
