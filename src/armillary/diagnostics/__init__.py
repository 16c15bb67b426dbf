"""Tests of samplers, and summaries of their draws that do not depend on how components are numbered."""

from armillary.diagnostics.joint_test import (
    JointTestResult,
    compare_draws,
    joint_test,
    marginal_conditional_draws,
    successive_conditional_draws,
)
from armillary.diagnostics.partitions import PointPartition, coclustering_matrix, expected_losses, point_partition
from armillary.diagnostics.traces import effective_sample_size, split_r_hat

__all__ = [
    "JointTestResult",
    "PointPartition",
    "coclustering_matrix",
    "compare_draws",
    "effective_sample_size",
    "expected_losses",
    "joint_test",
    "marginal_conditional_draws",
    "point_partition",
    "split_r_hat",
    "successive_conditional_draws",
]
