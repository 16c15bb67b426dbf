"""The page of a clustering: one self-contained HTML file. Needs matplotlib, the extra `armillary[plots]`."""

from armillary.report.content import ReportData
from armillary.report.writer import write_report

__all__ = ["ReportData", "write_report"]
