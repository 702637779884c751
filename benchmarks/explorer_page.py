"""From slider to picture: how long the explorer's page takes in a real Chromium, at 8-14-8 with 200 times.

    python benchmarks/explorer_page.py [--drags 200]

A slider is dragged, a step every 40 ms; each time is from the event of the slider to the frame after the figure was
drawn. Asked: median under 100 ms, 95 of 100 under 200 ms. Needs playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys

import numpy as np

VIEWS = {
    "scale, zero-balanced 8-14-8": ("", "scale"),
    "λ, λ-balanced 8-8-8": ('#start="lambda_balanced"', "lam"),
    "seed, zero-balanced 8-14-8": ("", "seed"),
    "λ, two tasks": ('#start="lambda_balanced"&then=["colour_hierarchy"]', "lam"),
}
DRAG = """async ([name, drags]) => {
  const slider = document.getElementById(`control-${name}`);
  slider.focus();
  const [least, most] = [+slider.min, +slider.max];
  performance.clearMeasures();
  for (let i = 0; i < drags; i += 1) {
    slider.value = Math.round(least + (most - least) * (0.5 + 0.35 * Math.sin(i / 12)));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((go) => setTimeout(go, 40));
  }
  await new Promise((go) => setTimeout(go, 1500));
  return performance.getEntriesByName("change to picture").map((entry) => entry.duration);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drags", type=int, default=200, help="steps of a slider in each view (default 200)")
    drags = parser.parse_args().drags
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "lazyrich", "explore", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://[\d.:]+\d", server.stdout.readline())
    assert found is not None
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    print(f"{'slider':<32}{'pictures':>10}{'median':>10}{'p95':>10}{'largest':>10}   (ms)")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            for name, (address, slider) in VIEWS.items():
                tab = browser.new_page(viewport={"width": 1400, "height": 1000}, reduced_motion="reduce")
                tab.goto(f"{found.group()}/{address}")
                tab.wait_for_selector("body[data-settled]")
                times = np.array(tab.evaluate(DRAG, [slider, drags]))
                low, high = np.percentile(times, [50, 95])
                print(f"{name:<32}{len(times):>10}{low:>10.1f}{high:>10.1f}{times.max():>10.1f}")
                tab.close()
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
