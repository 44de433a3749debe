"""Without Selenium, which the dependency group `browser` alone brings, there is nothing to collect for a browser."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("selenium") else ["test_report_in_browser.py"]
