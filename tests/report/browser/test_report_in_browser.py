"""The page in a real browser: what can be pointed at, switched, sorted and filtered, and how it looks."""

import re

import pytest

every_page = pytest.mark.parametrize("name", ["two", "ten", "thousand", "hostile"])

LUMINANCE = """
const parse = (text) => text.match(/[\\d.]+/g).slice(0, 4).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour[3] !== 0) return colour.slice(0, 3);
  }
  return [255, 255, 255];
};
const contrast = (node) => {
  const style = getComputedStyle(node);
  const ink = parse(node instanceof SVGElement ? style.fill : style.color).slice(0, 3);
  const [light, dark] = [luminance(ink), luminance(ground(node))].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};
"""


def tooltip(page):
    return page.locator("#tooltip")


@every_page
def test_a_page_loads_with_the_network_cut_off_and_nothing_to_complain_about(opened, name):
    page = opened(name)
    assert page.locator("h1").is_visible()
    assert page.locator("#method-choice").is_visible()
    assert page.locator("#theme").is_visible()


def test_a_script_in_the_name_of_a_class_does_not_run(opened):
    page = opened("hostile")
    assert page.evaluate("window.stolen") is None
    assert page.locator("img").count() == 0


# Reliability


def test_pointing_at_a_bin_shows_its_counts(opened):
    page = opened("ten")
    assert tooltip(page).is_hidden()
    page.locator("#slots .bin").nth(5).hover()
    text = tooltip(page).inner_text()
    assert re.search(r"\d+ rows", text)
    assert "mean score" in text
    assert "observed" in text
    page.mouse.move(0, 0)
    assert tooltip(page).is_hidden()


def test_the_keyboard_shows_the_same_as_the_pointer(opened):
    """One stop of the tab key per chart; the arrows go from bin to bin."""
    page = opened("ten")
    page.locator("#slots .bin").nth(1).hover()
    pointed = tooltip(page).inner_text()
    page.mouse.move(0, 0)
    page.locator("#switches input[value='bins']").focus()
    page.keyboard.press("Tab")
    first = tooltip(page).inner_text()
    page.keyboard.press("ArrowRight")
    assert tooltip(page).inner_text() == pointed != first
    page.keyboard.press("Home")
    assert tooltip(page).inner_text() == first
    page.keyboard.press("Escape")
    assert tooltip(page).is_hidden()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Scores")
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.matches('#slots .slot:first-child .bin')")


def test_switching_the_class_changes_both_pictures_and_says_so(opened):
    page = opened("ten")
    before = page.locator("#slots").inner_html()
    page.select_option("#event-choice", index=2)
    assert page.locator("#slots").inner_html() != before
    assert page.locator("#slots figure:visible").count() == 2
    assert "class 001" in page.locator("#announcement").inner_text()
    page.select_option("#event-choice", index=0)
    assert (
        page.locator("#slots .slot figure")
        .first.locator("figcaption")
        .inner_text()
        .startswith("uncalibrated")
    )


def test_switching_the_method_changes_the_second_picture_only(opened):
    page = opened("ten")
    left, right = page.locator("#slots .slot").nth(0), page.locator("#slots .slot").nth(1)
    first, second = left.inner_html().strip(), right.inner_html().strip()
    page.select_option("#method-choice", label="isotonic")
    assert left.inner_html().strip() == first
    assert right.inner_html().strip() != second
    assert right.locator("strong").first.inner_text() == "isotonic"


def test_methods_without_a_diagram_of_a_class_cannot_be_chosen(opened):
    page = opened("ten")
    page.select_option("#method-choice", label="beta")
    page.select_option("#event-choice", index=1)
    assert page.locator("#method-choice").input_value() == "1"
    assert page.locator("#method-choice option:disabled").count() == 3


def test_bars_and_isotonic_curve_can_be_switched(opened):
    page = opened("ten")
    bar, curve = page.locator("#slots .bar").first, page.locator("#slots .curve").first
    assert bar.is_visible()
    assert curve.is_hidden()
    page.check("input[value='isotonic']")
    assert bar.is_hidden()
    assert curve.is_visible()
    page.check("input[value='both']")
    assert bar.is_visible()
    assert curve.is_visible()


def test_a_small_diagram_of_a_class_can_be_enlarged(opened):
    page = opened("ten")
    page.locator(".enlarge").nth(3).click()
    assert "class 003" in page.locator("#slots figcaption").first.inner_text()
    assert page.evaluate("document.activeElement.id") == "event-choice"


# Tables


def column(page, table, index):
    return page.locator(f"#{table} tbody tr:visible > :nth-child({index})").all_inner_texts()


def test_a_head_sorts_by_click_and_by_key(opened):
    page = opened("ten")
    head = page.locator("#table-classes th[scope='col']").nth(5)
    button = head.locator("button")
    button.click()
    ascending = [float(text.split("\n")[0]) for text in column(page, "table-classes", 6)]
    assert ascending == sorted(ascending)
    assert head.get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    descending = [float(text.split("\n")[0]) for text in column(page, "table-classes", 6)]
    assert descending == sorted(descending, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


def test_what_has_no_value_is_sorted_to_the_end_both_ways(opened):
    page = opened("ten")
    button = page.locator("#table-classes th[scope='col']").nth(4).locator("button")
    for _ in range(2):
        button.click()
        slopes = column(page, "table-classes", 5)
        assert slopes[-2:] == ["–", "–"]
        assert "–" not in slopes[:-2]


def test_filtering_finds_classes_by_name(opened):
    page = opened("thousand")
    assert len(column(page, "table-classes", 1)) == 25
    page.fill("#table-classes-filter", "class 99")
    names = column(page, "table-classes", 1)
    assert names == [f"class {index}" for index in range(990, 1000)]
    assert "10 of 10 found" in page.locator(".filter-count").inner_text()
    page.fill("#table-classes-filter", "")
    assert len(column(page, "table-classes", 1)) == 25


def test_all_of_a_thousand_classes_can_be_shown_and_the_first_ones_again(opened):
    page = opened("thousand")
    button = page.locator(".show-all")
    button.click()
    assert len(column(page, "table-classes", 1)) == 1000
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert len(column(page, "table-classes", 1)) == 25


def test_sorting_a_thousand_shows_the_first_ones_of_the_new_order(opened):
    page = opened("thousand")
    button = page.locator("#table-classes th[scope='col']").first.locator("button")
    button.click()
    button.click()
    assert column(page, "table-classes", 1)[0] == "class 999"
    assert len(column(page, "table-classes", 1)) == 25


# Looks


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_follows_the_system_and_the_button(opened):
    page = opened("ten")
    light = background(page)
    page.click("#theme")
    assert background(page) != light
    assert page.locator("#theme").inner_text() == "Light colours"
    page.click("#theme")
    assert background(page) == light
    assert background(opened("ten", color_scheme="dark")) != light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened, scheme):
    """4.5 to 1, the AA level of the guidelines for accessible pages."""
    page = opened("ten", color_scheme=scheme)
    chosen = (
        "p, small, .tag, th, td, dt, dd, summary, a, figcaption span, .legend li, svg text, button, label, h2"
    )
    worst = page.evaluate(f"""() => {{ {LUMINANCE}
      const seen = [...document.querySelectorAll({chosen!r})].filter((node) => node.getClientRects().length);
      return seen.map((node) => [contrast(node), node.outerHTML.slice(0, 120)]).sort((a, b) => a[0] - b[0])[0];
    }}""")
    assert worst[0] >= 4.5, worst[1]


@pytest.mark.parametrize(("width", "smallest"), [(1200, 11), (360, 9)])
def test_text_in_charts_is_large_enough_and_does_not_overlap(opened, width, smallest):
    page = opened("ten", viewport={"width": width, "height": 800})
    sizes, overlaps = page.evaluate("""() => {
      const sizes = [], overlaps = [];
      for (const chart of document.querySelectorAll("svg.chart")) {
        const texts = [...chart.querySelectorAll("text")].filter((text) => text.getClientRects().length);
        const scale = chart.getScreenCTM()?.a ?? 1;
        for (const text of texts) sizes.push(parseFloat(getComputedStyle(text).fontSize) * scale);
        const level = texts.filter((text) => !text.hasAttribute("transform"));
        const boxes = level.map((text) => [text.getBoundingClientRect(), text.textContent]);
        boxes.forEach(([a, first], index) => {
          for (const [b, second] of boxes.slice(index + 1)) {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 1 && down > 4) overlaps.push(`${first} | ${second}`);
          }
        });
      }
      return [sizes, overlaps];
    }""")
    assert min(sizes) >= smallest
    assert not overlaps


@every_page
def test_a_narrow_phone_does_not_scroll_sideways(opened, name):
    page = opened(name, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_text_of_charts_stays_inside_them(opened):
    page = opened("ten")
    outside = page.evaluate("""() => [...document.querySelectorAll("svg.chart text")].filter((text) => {
      const [a, b] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
      return text.getClientRects().length && (a.left < b.left - 2 || a.right > b.right + 2 || a.bottom > b.bottom + 2);
    }).map((text) => text.textContent)""")
    assert not outside


@every_page
def test_without_scripts_all_is_there(opened, name):
    page = opened(name, java_script_enabled=False)
    for section in ("reliability", "scores", "classes", "methods", "repeat"):
        assert page.locator(f"#{section}").is_visible()
    assert page.locator("#method-choice").is_hidden()
    assert page.locator(".filter:visible, .show-all:visible, .enlarge:visible, #theme:visible").count() == 0
    rows = {"two": 2, "thousand": 1000}.get(name, 10)
    assert page.locator("#table-classes tbody tr").count() == rows
    assert page.locator("#table-classes tbody tr").last.is_visible()
    assert page.locator("#slots .bar").last.is_visible()
    page.check("input[value='isotonic']")
    assert page.locator("#slots .bar").last.is_hidden()
    page.locator("#gallery > summary").click()
    assert page.locator("#gallery figure").last.is_visible()


def test_printed_it_is_light_without_controls_and_with_the_tables_behind_the_pictures(opened):
    page = opened("thousand", color_scheme="dark")
    page.click("#theme")
    page.click("#theme")
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator(".controls:visible, nav:visible, summary:visible").count() == 0
    assert page.locator(".print-note").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_printing_opens_what_is_folded_and_folds_it_again(opened):
    page = opened("ten")
    folded = (
        "[...document.querySelectorAll('details:not(.gallery)')].filter((details) => !details.open).length"
    )
    before = page.evaluate(folded)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(folded) == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(folded) == before > 0


def test_the_page_works_in_a_frame_without_storage(opened, page_files):
    """As a notebook shows it: the text of a frame, cut off from the page around it."""
    page = opened("two")
    page.evaluate(
        """(text) => new Promise((done) => {
          const frame = document.createElement("iframe");
          frame.setAttribute("sandbox", "allow-scripts");
          frame.id = "notebook";
          frame.width = 900;
          frame.height = 700;
          frame.srcdoc = text;
          frame.onload = done;
          document.body.prepend(frame);
        })""",
        page_files["ten"].read_text(encoding="utf-8"),
    )
    frame = page.frame_locator("#notebook")
    frame.locator("#theme").click()
    assert frame.locator("#theme").inner_text() == "Light colours"
    frame.locator("nav a").nth(3).click()
    assert frame.locator("h1").inner_text() == "Digits, random forest"
    frame.locator("#event-choice").select_option(index=1)
    assert "class 000" in frame.locator("#announcement").inner_text()


def test_the_skip_link_is_the_first_stop_and_leads_to_the_verdict(opened):
    page = opened("ten")
    page.keyboard.press("Tab")
    assert page.locator(".skip").evaluate("node => node === document.activeElement")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("name", ["two", "ten", "hostile"])
def test_the_calibrator_can_be_tried(opened, name):
    """Changing a score changes the probabilities, by keyboard; what is no number is said so."""
    page = opened(name)
    calibrated = page.locator("#example td.calibrated")
    before = calibrated.all_inner_texts()
    field = page.locator("#example input.score").nth(1)
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("5")
    after = calibrated.all_inner_texts()
    assert after != before
    assert max(after, key=float) == after[1]
    assert abs(sum(map(float, after)) - 1) < 1e-3
    field.fill("-1")
    assert set(calibrated.all_inner_texts()) == {"–"}
    assert "Enter a finite number" in page.locator("#example-result").inner_text()


def test_the_form_fits_a_small_screen(opened):
    page = opened("two", viewport={"width": 360, "height": 700})
    box = page.locator("#example .table-box")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth + 1")
