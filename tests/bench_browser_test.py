"""The page of a benchmark in a real browser: python3 tests/bench_browser_test.py ETALON [--keep FOLDER]

Draws a record that holds everything (fixtures/make_bench_record.py) with `etalon report`, opens it in
headless Chromium at phone and desktop width, light and dark, and checks: each plot holds a mark for
each point of its data, the Pareto front is the right one, the data behind each plot is one click away
and says what the record says, the choices above the plots work by keyboard, names stay text, nothing
is wider than the screen, text has contrast, no error, nothing loaded. With --keep the screenshots
stay in FOLDER. Says "skipped" where there is no Chromium.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from chromium import Browser, find_chromium  # noqa: E402
from report_browser_test import CONTRAST, COVERED, CUT, OVERFLOW, Checks  # noqa: E402

FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def entries(row):
    """name -> (time, error) of everybody who computed a row."""
    found = {"Etalon " + row["contract_name"]: (row["median_s"], row["max_ulp"])}
    for name, peer in row.get("vs", {}).items():
        if peer["status"] != "ok":
            continue
        if peer["kind"] == "contract":
            name = "Etalon " + name
        found[name.replace(".blocked", ", in its own layouts")] = (peer["median_s"], peer["max_ulp"])
    return found


def front_of(found):
    return {name for name, (time, error) in found.items()
            if not any(t <= time and e <= error and (t, e) != (time, error) for t, e in found.values())}


def csv_of(page, section):
    """What the section's button downloads."""
    page.evaluate("""window.kept = [];
        URL.createObjectURL = (blob) => { window.kept.push(blob); return 'data:,'; };
        HTMLAnchorElement.prototype.click = function () {};
        document.querySelector('section[aria-labelledby=%s] .csv').click()""" % section)
    return list(csv.reader(page.evaluate("window.kept[0].text()").splitlines()))


def look(browser, url, record, width, dark, checks, keep):
    where = "%d px, %s: " % (width, "dark" if dark else "light")
    page = browser.open(url, width=width, height=800, dark=dark)
    page.wait("document.documentElement.dataset.drawn === 'true'")
    page.evaluate(FRAMES)
    if keep:
        page.screenshot(os.path.join(keep, "bench-%d-%s.png" % (width, "dark" if dark else "light")))
    rows = record["bench"]["rows"]
    marks = "[...document.querySelectorAll('section[aria-labelledby=%s] .chart title')].map((t) => t.textContent)"

    # The plane: every way to compute the first row, and who is on the front.
    found = entries(rows[0])
    shown = page.evaluate(marks % "plane")
    checks.that(len(shown) == len(found), where + "%d of %d points on the plane" % (len(shown), len(found)))
    cells = page.evaluate("[...document.querySelectorAll('table[aria-label=Points] tbody tr')]"
                          ".map((r) => [...r.children].map((c) => c.textContent))")
    marked = {row[0].split(None, 1)[1] for row in cells if row[-1] == "yes"}
    checks.that(marked == front_of(found), where + "the front is %s, not %s" % (sorted(front_of(found)), sorted(marked)))
    lines = csv_of(page, "plane")
    times = {line[0]: float(line[2]) for line in lines[1:]}
    checks.that(times == {name: time for name, (time, _) in found.items()}, where + "the CSV holds the record's times: %s" % times)

    # The roofline: ours, the fastest library and the fastest framework of each row on one thread.
    sums = [r for r in rows if r["threads"] == 1 and r["flops"] > 0]
    expected = sum(1 + len({p["kind"] for p in r.get("vs", {}).values() if p["status"] == "ok" and p["kind"] != "contract"}) for r in sums)
    shown = page.evaluate(marks % "roofline")
    checks.that(len(shown) == expected, where + "%d of %d points under the roof" % (len(shown), expected))
    lines = csv_of(page, "roofline")
    over = [line for line in lines[1:] if not 0 < float(line[-1]) <= 1]
    checks.that(len(lines) == expected + 1 and not over, where + "shares of the possible: %s" % over)
    roofs = page.evaluate("[...document.querySelectorAll('section[aria-labelledby=roofline] .chart path[stroke=\"var(--soft)\"]')].map((p) => p.getAttribute('d'))")
    checks.that(len(roofs) == 2 and all(roof.count("L") == 2 for roof in roofs), where + "the roofs have a corner each: %s" % roofs)
    checks.that("64.8 GFLOP/s, lay below" in page.evaluate("document.getElementById('page').innerText"), where + "a peak measured too low is said")

    # Size and threads.
    lines = csv_of(page, "size")
    gemms = [r for r in rows if r["op"] == "gemm" and r["threads"] == 1]
    checks.that(len(lines) == 1 + len(gemms) * 3, where + "%d lines of sizes" % len(lines))
    lines = csv_of(page, "threads")
    speed = {(line[0], line[1]): float(line[3]) for line in lines[1:]}
    one, two = (r["median_s"] for r in rows[:2])
    checks.that(abs(speed[("Etalon", "2")] - one / two) < 1e-9 and speed[("Etalon", "1")] == 1, where + "speed-up of two threads: %s" % speed)

    overlap = page.evaluate("""(() => {
      const boxes = [...document.querySelectorAll('section[aria-labelledby=plane] svg text.value')].map((t) => [t.textContent, t.getBBox()]);
      return [boxes.length, boxes.flatMap(([m, a], i) => boxes.slice(i + 1).filter(([, b]) => a.x + 1 < b.x + b.width && b.x + 1 < a.x + a.width && a.y + 4 < b.y + b.height && b.y + 4 < a.y + a.height).map(([n]) => m + ' on ' + n))];
    })()""")
    checks.that(overlap[0] > 8 and not overlap[1], where + "numbers of the plane lie on each other: %s" % overlap)

    # Another shape by keyboard.
    before = page.evaluate("document.querySelector('section[aria-labelledby=plane] svg[role=img]').getAttribute('aria-label')")
    page.evaluate("document.getElementById('plane-shape').focus()")
    page.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": "ArrowDown", "windowsVirtualKeyCode": 40})
    page.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": "ArrowDown", "windowsVirtualKeyCode": 40})
    page.evaluate(FRAMES)
    after = page.evaluate("document.querySelector('section[aria-labelledby=plane] svg[role=img]').getAttribute('aria-label')")
    checks.that(before != after, where + "the arrow key chooses another operation (%s)" % after)

    # One click opens a plot's table; then nothing is wider than the screen, and all has contrast.
    for section in ("plane", "roofline", "size", "threads"):
        closed = page.evaluate("document.querySelector('section[aria-labelledby=%s] .data tbody').checkVisibility()" % section)
        page.evaluate("document.querySelector('section[aria-labelledby=%s] .data summary').click()" % section)
        drawn = page.evaluate("document.querySelector('section[aria-labelledby=%s] .data tbody').checkVisibility()" % section)
        checks.that(not closed and drawn, where + section + ": its data is one click away")
    page.evaluate(FRAMES)
    text = page.evaluate("document.getElementById('page').innerText")
    checks.that("no module torch" in text, where + "an absent framework gives its reason")
    checks.that("367 of 527 outputs differ" in text and "the bits of order=lanes:8" in text and "0.248500347" in text and "-3 " in text,
                where + "an order that was found is told, its numbers in both bases")
    checks.that("slower" in text and "1.040 to 1.080" in text and "bits moved" in text, where + "the comparison is told")
    checks.that("The machine was noisy" in text, where + "noise is said")
    checks.that(page.evaluate("document.getElementById('markup') === null") and "<b id=markup>" in text, where + "a name became markup")
    over, wide = page.evaluate(OVERFLOW)
    checks.that(over <= 0 and not wide, where + "wider than the screen by %s: %s" % (over, wide))
    checks.that(not page.evaluate(CUT), where + "words are cut off: %s" % page.evaluate(CUT))
    checks.that(not page.evaluate(COVERED), where + "out of reach: %s" % page.evaluate(COVERED))
    ratio, worst, texts = page.evaluate(CONTRAST)
    checks.that(texts > 300 and ratio >= 4.5, where + "contrast %.2f at '%s' (%d texts)" % (ratio, worst, texts))
    unnamed = page.evaluate("[...document.querySelectorAll('button, a, select, svg[role=img], table')].filter((e) =>"
                            " !(e.innerText || e.getAttribute('aria-label') || (e.labels && e.labels.length) || '')).length")
    checks.that(unnamed == 0, where + "%d controls or pictures have no name" % unnamed)
    checks.that(not page.errors(), where + "console: %s" % page.errors())
    outside = [u for u in page.requests() if not u.startswith(("file:", "data:", "blob:"))]
    checks.that(not outside, where + "loads %s" % outside)
    page.close()


def main():
    words = sys.argv[1:]
    keep = None
    if "--keep" in words:
        at = words.index("--keep")
        keep = words[at + 1]
        del words[at:at + 2]
        os.makedirs(keep, exist_ok=True)
    if find_chromium() is None:
        print("skipped: there is no chromium on this machine (Debian package chromium)")
        return 0
    text = subprocess.run([sys.executable, os.path.join(HERE, "fixtures", "make_bench_record.py")],
                          check=True, stdout=subprocess.PIPE).stdout
    record = json.loads(text)
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        path, page = os.path.join(folder, "record.json"), os.path.join(folder, "page.html")
        with open(path, "wb") as file:
            file.write(text)
        subprocess.run([words[0], "report", path, "-o", page], check=True, stdout=subprocess.DEVNULL)
        with Browser() as browser:
            for width in (390, 1280):
                for dark in (False, True):
                    look(browser, "file://" + page, record, width, dark, checks, keep)
    print("%d checks, %d failed" % (checks.made, len(checks.failed)))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
