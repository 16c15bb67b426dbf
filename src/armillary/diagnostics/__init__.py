"""Tests of samplers, and summaries of their draws that do not depend on how components are numbered."""

from armillary.diagnostics.joint_test import (
    JointTestResult,
    compare_draws,
    joint_test,
    marginal_conditional_draws,
    successive_conditional_draws,
)
from armillary.diagnostics.partitions import PointPartition, coclustering_matrix, expected_losses, point_partition

__all__ = [
    "JointTestResult",
    "PointPartition",
    "coclustering_matrix",
    "compare_draws",
    "expected_losses",
    "joint_test",
    "marginal_conditional_draws",
    "point_partition",
    "successive_conditional_draws",
]
