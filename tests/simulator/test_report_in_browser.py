"""SIM-10: the report in a real browser: a headless Chromium opens it without a network, a job is clicked, and read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from dispatch_memory_async.simulator import report
from tests.simulator.reports import broken_run, crowded_run, multiplied, well_run

pytestmark = pytest.mark.browser

SECONDS = 5
"""How long a page may take until it answers."""
IN_VIEW = """
const r = arguments[0].getBoundingClientRect(), [x, y] = [(r.left + r.right) / 2, (r.top + r.bottom) / 2];
return r.height > 0 && r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight
  && arguments[0].contains(document.elementFromPoint(x, y));"""
"""Whether an element is whole in sight, and nothing lies on it."""


class Page:
    """A report that is open in the browser.

    :param driver: Selenium's, whose own types are not all there
    """

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        driver.get(path.as_uri())
        self.until(lambda: self.all("html[data-ready=yes]"))

    def until(self, condition: Callable[[], object]) -> None:
        WebDriverWait(self.driver, SECONDS, poll_frequency=0.05).until(lambda _: condition())

    def all(self, css: str) -> list[WebElement]:
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, css)
        return found

    def one(self, css: str) -> WebElement:
        found: WebElement = self.driver.find_element(By.CSS_SELECTOR, css)
        return found

    def in_view(self, css: str) -> bool:
        return bool(self.driver.execute_script(IN_VIEW, self.one(css)))

    def press(self, *keys: str) -> None:
        self.one("#rows").send_keys(*keys)

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def ticks(self) -> list[str]:
        self.settle()
        return [tick.text for tick in self.all("#axis text")]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-dev-shm-usage",
        "host-resolver-rules=MAP * ~NOTFOUND",
        "window-size=1400,900",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    broken = broken_run()
    runs = {
        "one": broken_run(1),
        "five": broken,
        "many": multiplied(broken, 100),
        "crowd": crowded_run(),
        "well": well_run(),
    }
    for name, result in runs.items():
        (folder / f"{name}.html").write_text(report(result), "utf-8")
    return folder


@pytest.fixture(params=["one", "five", "many", "crowd"])
def page(request: pytest.FixtureRequest, driver: Any, folder: Path) -> Page:
    return Page(driver, folder / f"{request.param}.html")


@pytest.fixture(params=["one", "five", "many"])
def broken(request: pytest.FixtureRequest, driver: Any, folder: Path) -> Page:
    return Page(driver, folder / f"{request.param}.html")


@pytest.fixture
def many(driver: Any, folder: Path) -> Page:
    return Page(driver, folder / "many.html")


def test_the_violation_is_in_view_on_opening(page: Page) -> None:
    assert "was broken by job" in page.one("#verdict h2").text
    for css in ("#verdict h2", "#verdict code", "path.violation[data-line]", "#story li.violation"):
        assert page.in_view(css), css


def test_a_job_that_is_clicked_tells_its_story(page: Page) -> None:
    row = next(row for row in page.all(".row") if page.driver.execute_script(IN_VIEW, row))
    number = row.get_attribute("data-job")
    row.find_element(By.TAG_NAME, "button").click()
    assert page.one("#story h2").text == f"The story of job {number}"
    lines = [line.text for line in page.all("#story li")]
    assert any("begins: submit" in line for line in lines)
    assert any("start starts, for submission 1" in line for line in lines)
    assert any(line.startswith("Step 0, at 0 s") for line in lines)


def test_a_mark_that_is_clicked_is_found_in_the_story(broken: Page) -> None:
    mark = next(mark for mark in broken.all("#rows .mark.fault") if broken.driver.execute_script(IN_VIEW, mark))
    mark.click()
    told = broken.one("#story li.chosen")
    assert "fault" in (told.get_attribute("class") or "")
    assert broken.in_view("#story li.chosen")


def test_the_axis_zooms_moves_and_changes_by_the_keyboard(broken: Page) -> None:
    broken.press("0")
    assert "step 0" in broken.ticks()
    broken.press("+", "+")
    assert "step 0" not in broken.ticks()
    for _ in range(10):
        broken.press(Keys.ARROW_LEFT)
    assert "step 0" in broken.ticks()
    broken.one("#by").send_keys("virtual time")
    assert broken.ticks()[0] == "0 s"
    broken.press("v")
    broken.settle()
    assert broken.in_view("path.violation[data-line]")


def test_500_jobs_are_quick(many: Page) -> None:
    """Only the rows in sight exist, so that a page of others is drawn at once: in less than half a second anywhere."""
    loaded = many.driver.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < loaded < SECONDS * 1000
    assert len(many.all(".row")) < 60
    many.one("#find").send_keys("7")
    many.until(lambda: [row.get_attribute("data-job") for row in many.all(".row")] == ["7"])
    many.one(".row button").click()
    assert many.one("#story h2").text == "The story of job 7"
    spent = many.driver.execute_async_script(
        """const done = arguments[0], rows = document.getElementById("rows"), from = performance.now();
        document.getElementById("find").value = "";
        document.getElementById("find").dispatchEvent(new Event("input"));
        let frames = 0;
        (function next() {
          rows.scrollTop += rows.clientHeight;
          if (++frames < 10) requestAnimationFrame(next); else done(performance.now() - from);
        })();"""
    )
    assert spent < SECONDS * 1000


def test_a_run_without_a_violation_tells_so(driver: Any, folder: Path) -> None:
    page = Page(driver, folder / "well.html")
    assert "Nothing was broken" in page.one("#verdict h2").text
    assert not page.one("#show").is_displayed()
    assert len(page.all(".row")) == 5
    assert page.one("#story h2").text == "The story of job 1"


def test_on_a_telephone_the_story_comes_into_view(driver: Any, folder: Path) -> None:
    driver.set_window_size(500, 900)
    try:
        page = Page(driver, folder / "five.html")
        assert page.in_view("#verdict h2")
        assert page.in_view("path.violation[data-line]")
        page.all(".row button")[1].click()
        assert page.in_view("#story h2")
        wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
    finally:
        driver.set_window_size(1400, 900)


def test_nothing_is_asked_of_a_network_and_no_script_fails(broken: Page) -> None:
    assert broken.driver.get_log("browser") == []
    log = broken.driver.get_log("performance")
    asked = [line for line in log if "Network.requestWillBeSent" in line["message"]]
    assert not [line for line in asked if '"url":"http' in line["message"]]
