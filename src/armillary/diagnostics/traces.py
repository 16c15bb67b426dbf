"""Traces of samplers: effective sample size and split R-hat of one number per draw, over several chains."""

from __future__ import annotations

from armillary.fitting.convergence import effective_sample_size, split_r_hat

__all__ = ["effective_sample_size", "split_r_hat"]
