"""The report of a run as a file of HTML that needs nothing else: the same as the page of the dashboard.

Above: the command `train report`. Below: proxy/dashboard/run_report.py, whose drawing it is.
"""

from __future__ import annotations

from proxy.dashboard.run_report import report_file
from proxy.store.training_report import Report


def render_html(report: Report) -> str:
    """The whole page, with plots and style in it."""
    return report_file(report)
