"""The report in a real browser: python3 tests/report_browser_test.py [ETALON] [--keep FOLDER]

Draws a record that holds everything (fixtures/make_report_record.py) and the GPU's (docs/evidence)
with `etalon report`, opens each page in headless Chromium at phone and desktop width, light and dark, and checks: no error on
the console, nothing loaded from outside, the tables say what the record says, hostile names stay
text, nothing is wider than the screen, text has contrast, all is reachable by keyboard, and the
data that can be downloaded is the record. With --keep the screenshots stay in FOLDER. Says
"skipped" where there is no Chromium.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from chromium import Browser, find_chromium  # noqa: E402

CONTRAST = """(() => {
  // WCAG contrast of every text against the nearest opaque background.
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  let worst = [99, ''], texts = 0;
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length || element.closest('title')) continue;
    let behind = [255, 255, 255, 0];
    for (let e = element; e && behind[3] < 250; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] > 250) behind = c;
    }
    const style = getComputedStyle(element);
    const ink = rgba(element.namespaceURI.endsWith('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    texts++;
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.data.trim().slice(0, 40)];
  }
  return [worst[0], worst[1], texts];
})()"""

OVERFLOW = """(() => {
  const width = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll('#page *')].filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width && r.right > width + 0.5 && !e.closest('thead');
  });
  return [document.documentElement.scrollWidth - width,
          wide.slice(0, 3).map((e) => e.tagName + '.' + (e.getAttribute('class') || '') + ': ' + e.textContent.slice(0, 40))];
})()"""

# Words of a drawing that leave it at the right, where they are cut off.
CUT = """[...document.querySelectorAll('main svg text')].filter((t) => {
  const drawing = t.ownerSVGElement.getBoundingClientRect(), r = t.getBoundingClientRect();
  return r.width && (r.right > drawing.right + 1 || r.left < drawing.left - 1);
}).map((t) => t.textContent).slice(0, 3)"""

# What a finger cannot reach: something else lies over its middle.
COVERED = """[...document.querySelectorAll('main button, main select, main input, main summary, main a, nav a')].filter((e) => {
  if (!e.checkVisibility() || !e.getClientRects().length) return false;
  e.scrollIntoView({block: 'center', inline: 'center'});
  const r = e.getClientRects()[0], hit = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
  return !hit || !(e.contains(hit) || hit.contains(e) && hit.closest('label'));
}).map((e) => e.outerHTML.slice(0, 60))"""


DRAWN = "document.documentElement.dataset.drawn === 'true'"
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Checks:
    def __init__(self):
        self.made, self.failed = 0, []

    def that(self, holds, text):
        self.made += 1
        if not holds:
            self.failed.append(text)
            print("FAILED:", text)


def sound(page, record, where, checks, words):
    """What every page keeps to: all of it open, `words` texts at least."""
    # Everything open, nothing wider than the screen.
    page.evaluate("document.querySelectorAll('ol.graph button[aria-expanded=false]').forEach((b) => b.click());"
                  "document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.evaluate(SETTLED)
    over, wide = page.evaluate(OVERFLOW)
    checks.that(over <= 0 and not wide, where + "wider than the screen by %s: %s" % (over, wide))
    narrow = page.evaluate("Math.min(...[...document.querySelectorAll('td, tbody th')]"
                           ".filter((c) => c.textContent.length > 12).map((c) => c.getBoundingClientRect().width))")
    checks.that(narrow >= 60, where + "a cell of text is %.0f pixels wide" % narrow)
    checks.that(not page.evaluate(CUT), where + "words are cut off: %s" % page.evaluate(CUT))
    checks.that(not page.evaluate(COVERED), where + "out of reach: %s" % page.evaluate(COVERED))
    ratio, worst, texts = page.evaluate(CONTRAST)
    checks.that(texts > words and ratio >= 4.5, where + "contrast %.2f at '%s' (%d texts)" % (ratio, worst, texts))

    # What can be downloaded is the record.
    page.evaluate("""window.kept = [];
        URL.createObjectURL = (blob) => { window.kept.push(blob); return 'data:,'; };
        HTMLAnchorElement.prototype.click = function () { window.kept.push(this.download); };
        document.querySelectorAll('#data ~ .buttons button').forEach((b) => b.click())""")
    checks.that(json.loads(page.evaluate("window.kept[0].text()")) == record, where + "the download is the record")
    checks.that(not page.errors(), where + "console: %s" % page.errors())
    outside = [u for u in page.requests() if not u.startswith(("file:", "data:", "blob:"))]
    checks.that(len(page.requests()) >= 1 and not outside, where + "loads %s" % outside)


def photograph(browser, url, width, dark, path):
    fresh = browser.open(url, width=width, height=800, dark=dark)
    fresh.wait(DRAWN)
    fresh.evaluate(SETTLED)
    fresh.screenshot(path)
    fresh.close()


def look(browser, url, record, width, dark, checks, keep):
    where = "%d px, %s: " % (width, "dark" if dark else "light")
    page = browser.open(url, width=width, height=800, dark=dark)
    page.wait(DRAWN)
    page.evaluate(SETTLED)
    text = page.evaluate("document.getElementById('page').innerText")
    validate = record["validate"]

    for target in validate["targets"]:
        checks.that(target.get("version", target["target"]) in text, where + "names " + target["target"])
        if target["status"] != "ok":
            checks.that(target["reason"] in text, where + "gives the reason of " + target["target"])
    words = page.evaluate("[...document.querySelectorAll('.finding .chip')].map((c) => c.innerText.trim())")
    checks.that(words == ["explained", "lower precision", "wrong", "unavailable"],
                where + "verdicts are %s" % words)
    sentences = page.evaluate("[...document.querySelectorAll('.finding > p:first-of-type')].map((c) => c.innerText)")
    checks.that(len(sentences) == 4 and all(len(s) > 40 and s.rstrip().endswith((".", "PATH.", "PATH")) for s in sentences),
                where + "one plain sentence for each: %s" % sentences)
    checks.that("inputs cut to 11 bits (TF32)" in sentences[1] and "branch3.conv" in sentences[1],
                where + "the sentence names cause and layer")
    rows = page.evaluate("document.querySelectorAll('table[aria-label=Outputs] tbody tr').length")
    checks.that(rows == 4, where + "the table of outputs has %d rows" % rows)
    nodes = len(validate["graph"]["nodes"]) + 1
    drawn = page.evaluate("document.querySelectorAll('ol.graph > li > .rail svg').length")
    checks.that(drawn == nodes, where + "%d of %d nodes are drawn" % (drawn, nodes))
    marked = page.evaluate("[...document.querySelectorAll('ol.graph > li.first .who')].map((e) => e.innerText)")
    checks.that(len(marked) == 1 and "branch3.conv" in marked[0], where + "first divergence marked: %s" % marked)
    checks.that(page.evaluate("!!document.querySelector('ol.graph > li.first .panel:not([hidden]) figure svg rect')"),
                where + "its histogram is open")
    checks.that(page.evaluate("document.querySelectorAll('.times .bar').length") == 4, where + "four time bars")
    checks.that("∞" in page.evaluate("document.querySelector('.finding:nth-of-type(3)').innerText"),
                where + "an infinite error is shown")
    checks.that(page.evaluate("document.getElementById('markup') === null"), where + "a name became markup")

    # Another target by keyboard: focus its button, press Enter, the graph follows.
    page.evaluate("document.querySelectorAll('#network ~ .buttons button')[2].focus()")
    page.press("Enter", 13)
    marked = page.evaluate("[...document.querySelectorAll('ol.graph > li.first .who')].map((e) => e.innerText)")
    checks.that(len(marked) == 1 and "</script>" in marked[0], where + "keyboard switches the target: %s" % marked)
    page.evaluate("document.querySelector('ol.graph button[aria-expanded=false]').focus()")
    before = page.evaluate("document.querySelectorAll('.panel:not([hidden])').length")
    page.press("Enter", 13)
    after = page.evaluate("document.querySelectorAll('.panel:not([hidden])').length")
    checks.that(after == before + 1, where + "keyboard opens a layer")
    page.evaluate(SETTLED)
    unnamed = page.evaluate("[...document.querySelectorAll('button, a, svg[role=img], table')].filter((e) =>"
                            " !(e.innerText || e.getAttribute('aria-label') || '').trim()).length")
    checks.that(unnamed == 0, where + "%d controls or pictures have no name" % unnamed)
    ids = page.evaluate("(() => { const i = [...document.querySelectorAll('[id]')].map((e) => e.id); return i.length - new Set(i).size; })()")
    checks.that(ids == 0, where + "ids are unique")

    sound(page, record, where, checks, 300)
    csv = page.evaluate("window.kept[2].text()").splitlines()
    layers = sum(len(t.get("layers", [])) + len(t.get("outputs", [])) for t in validate["targets"])
    checks.that(len(csv) == layers + 1, where + "the CSV has %d lines" % len(csv))

    page.close()
    if keep:
        photograph(browser, url, width, dark, os.path.join(keep, "report-%d-%s.png" % (width, "dark" if dark else "light")))


def look_at_gpu(browser, url, record, width, dark, checks, keep):
    """The record of bench/gpu_evidence.sh."""
    where = "GPU, %d px, %s: " % (width, "dark" if dark else "light")
    page = browser.open(url, width=width, height=800, dark=dark)
    page.wait(DRAWN)
    page.evaluate(SETTLED)
    text = page.evaluate("document.getElementById('page').innerText")
    equal = sum(r["equal"] for r in record["rows"])
    checks.that("%d of %d" % (equal, len(record["rows"])) in text, where + "says how many kernels are equal")
    for field in ("device", "cublas", "cudnn", "commit"):
        checks.that(record[field] in text, where + "says the " + field)
    # The strip of a kind of ratio has a point for each shape that has this ratio.
    ratios = sum(isinstance(e.get(k), float) for e in record["times"] for k in e if k.endswith("ratio"))
    points = page.evaluate("document.querySelectorAll('[aria-labelledby=gpu-ratios] svg circle').length")
    checks.that(points == ratios, where + "%d points for %d ratios" % (points, ratios))
    # Another shape by keyboard: its kernels, each with a bar, the fastest first.
    page.evaluate("(() => { const c = document.getElementById('gpu-shape');"
                  " c.selectedIndex = [...c.options].findIndex((o) => o.text === 'gemm cube.4096');"
                  " c.dispatchEvent(new Event('change')); })()")
    bars = page.evaluate("[...document.querySelectorAll('[aria-labelledby=gpu-shapes] .bar-cell')].map((b) => b.getAttribute('aria-label').split(':')[0])")
    times = {k: v["median_s"] for e in record["times"] if e["key"] == "gemm cube.4096"
             for k, v in e["kernels"].items() if "median_s" in v}
    checks.that(len(times) > 5 and bars == sorted(times, key=times.get), where + "the kernels of a shape: %s" % bars)
    sound(page, record, where, checks, 300)
    page.close()
    if keep:
        photograph(browser, url, width, dark, os.path.join(keep, "gpu-%d-%s.png" % (width, "dark" if dark else "light")))


def main():
    words = sys.argv[1:]
    keep = None
    if "--keep" in words:
        at = words.index("--keep")
        keep = words[at + 1]
        del words[at:at + 2]
        os.makedirs(keep, exist_ok=True)
    etalon = words[0] if words else os.path.join(HERE, "..", "build", "release", "bin", "etalon")
    if find_chromium() is None:
        print("skipped: there is no chromium on this machine (Debian package chromium)")
        return 0
    text = subprocess.run([sys.executable, os.path.join(HERE, "fixtures", "make_report_record.py")],
                          check=True, stdout=subprocess.PIPE).stdout
    record = json.loads(text)
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.json")
        with open(path, "wb") as file:
            file.write(text)
        page = os.path.join(folder, "page.html")
        subprocess.run([etalon, "report", path, "-o", page], check=True, stdout=subprocess.DEVNULL)
        gpu_record = os.path.join(HERE, "..", "docs", "evidence", "h200", "gpu.json")
        gpu_page = os.path.join(folder, "gpu.html")
        subprocess.run([etalon, "report", gpu_record, "-o", gpu_page], check=True, stdout=subprocess.DEVNULL)
        with open(gpu_record) as file:
            gpu = json.load(file)
        with Browser() as browser:
            for width in (390, 1280):
                for dark in (False, True):
                    look(browser, "file://" + page, record, width, dark, checks, keep)
                    look_at_gpu(browser, "file://" + gpu_page, gpu, width, dark, checks, keep)
    print("%d checks, %d failed" % (checks.made, len(checks.failed)))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
