"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);

  for (const control of all(".controls[hidden]")) control.hidden = false;

  // Colours. In a frame, access to storage may raise an exception.
  const theme = one("#theme");
  const root = document.documentElement;
  const remembered = (value) => {
    try {
      if (value) localStorage.setItem("calibrant-theme", value);
      return localStorage.getItem("calibrant-theme");
    } catch {
      return null;
    }
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const showTheme = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();

  // Code to copy. Where the clipboard may not be used, the text is selected.
  for (const button of all(".copy")) {
    button.addEventListener("click", async () => {
      const code = one("code", button.closest(".code"));
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // The link to the section that is read is marked, and brought into view in a narrow list of contents.
  const contents = one("nav");
  if (contents && "IntersectionObserver" in globalThis) {
    const seen = new Set();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const current = all("main section").find((section) => seen.has(section.id));
      if (!current) return;
      for (const link of all("a", contents)) {
        const isCurrent = link.getAttribute("href") === `#${current.id}`;
        if (isCurrent === link.hasAttribute("aria-current")) continue;
        if (!isCurrent) link.removeAttribute("aria-current");
        else {
          link.setAttribute("aria-current", "true");
          const list = link.closest("ul");
          list.scrollLeft += link.getBoundingClientRect().left - list.getBoundingClientRect().left - 16;
        }
      }
    }, { rootMargin: "-15% 0px -55% 0px" });
    for (const section of all("main section")) observer.observe(section);
  }

  // Links within the page: in a srcdoc frame a plain link would navigate to the parent page.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    const target = link && document.getElementById(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
    target.focus({ preventScroll: true });
  });

  // Tooltips of bins, for pointer and keyboard: one tab stop per chart, arrow keys between bins.
  const tooltip = one("#tooltip");
  const showTip = (bin) => {
    tooltip.textContent = bin.getAttribute("aria-label").split("; ").join("\n");
    tooltip.hidden = false;
    const place = one(".target", bin).getBoundingClientRect();
    const size = tooltip.getBoundingClientRect();
    const fits = place.right + 8 + size.width <= innerWidth - 8;
    const left = fits ? place.right + 8 : place.left - size.width - 8;
    tooltip.style.left = `${Math.max(8, Math.min(left, innerWidth - size.width - 8))}px`;
    tooltip.style.top = `${Math.max(8, Math.min(place.top + 8, innerHeight - size.height - 8))}px`;
  };
  const hideTip = () => { tooltip.hidden = true; };
  for (const chart of all("svg.reliability")) {
    const bins = all(".bin", chart);
    chart.setAttribute("role", "group");
    chart.setAttribute("aria-label", one("title", chart).textContent);
    one("title", chart).remove();
    bins.forEach((bin, index) => {
      bin.setAttribute("aria-label", one("title", bin).textContent);
      one("title", bin).remove();
      bin.setAttribute("role", "img");
      bin.setAttribute("tabindex", index ? "-1" : "0");
      bin.addEventListener("pointerenter", () => showTip(bin));
      bin.addEventListener("pointerleave", hideTip);
      bin.addEventListener("focus", () => showTip(bin));
      bin.addEventListener("blur", hideTip);
      bin.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: bins.length - 1 };
        const next = bins[steps[event.key]];
        if (!next) return;
        event.preventDefault();
        bin.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      });
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });

  // Reliability: selection of event and method. The style sheet handles the selection of marks.
  const slots = all("#slots .slot");
  const gallery = one("#gallery");
  const figures = new Map(all(".reliability-figure").map((figure) => [`${figure.dataset.event} ${figure.dataset.method}`, figure]));
  const eventChoice = one("#event-choice");
  const methodChoice = one("#method-choice");
  const store = document.createElement("div");
  store.hidden = true;
  const put = (slot, figure) => {
    store.append(...slot.children);
    if (figure) slot.append(figure);
  };
  const showCurves = () => {
    const event = eventChoice ? eventChoice.value : "0";
    let method = methodChoice ? methodChoice.value : "1";
    for (const option of methodChoice ? methodChoice.options : []) option.disabled = !figures.has(`${event} ${option.value}`);
    if (!figures.has(`${event} ${method}`)) {
      const possible = methodChoice && [...methodChoice.options].find((option) => !option.disabled);
      if (possible) method = methodChoice.value = possible.value;
    }
    if (slots[0]) put(slots[0], figures.get(`${event} 0`));
    if (slots[1]) put(slots[1], figures.get(`${event} ${method}`));
    const shown = slots.map((slot) => one("figcaption strong", slot)?.textContent).filter(Boolean).join(" and ");
    one("#announcement").textContent = `Showing ${eventChoice ? eventChoice.selectedOptions[0].textContent : ""}: ${shown}.`;
  };
  if (slots.length) {
    slots[0].parentElement.append(store);
    if (gallery) {
      store.append(...all(".reliability-figure", gallery));
      gallery.hidden = true;
    }
    for (const choice of [eventChoice, methodChoice]) choice?.addEventListener("change", showCurves);
    const section = one("#reliability");
    for (const button of all(".enlarge")) {
      button.addEventListener("click", () => {
        eventChoice.value = button.dataset.event;
        showCurves();
        section.scrollIntoView();
        eventChoice.focus({ preventScroll: true });
      });
    }
  }

  // Tables: sorting by column headers, filtering, and showing only the first rows of long tables.
  for (const block of all(".table-block")) {
    const body = one("tbody", block);
    const rows = all("tr", body);
    const limit = Number(block.dataset.limit || Infinity);
    const filter = one(".filter", block);
    const output = one(".filter-count", block);
    const more = one(".show-all", block);
    const refresh = () => {
      const wanted = filter ? filter.value.trim().toLowerCase() : "";
      const ordered = [...body.rows];
      const found = ordered.filter((row) => row.cells[0].textContent.toLowerCase().includes(wanted));
      for (const row of ordered) row.classList.add("filtered-out");
      for (const row of found) row.classList.remove("filtered-out");
      for (const row of ordered) row.classList.remove("later");
      for (const row of found.slice(limit)) row.classList.add("later");
      const shown = block.classList.contains("all") ? found.length : Math.min(found.length, limit);
      if (output) output.textContent = shown < rows.length ? `${shown} of ${wanted ? `${found.length} found` : rows.length} shown` : "";
    };
    if (limit < rows.length) {
      block.classList.add("shortened");
      more.addEventListener("click", () => {
        const open = block.classList.toggle("all");
        more.setAttribute("aria-expanded", String(open));
        more.textContent = open ? `Show the first ${limit}` : `Show all ${rows.length}`;
        refresh();
      });
    }
    if (filter) filter.addEventListener("input", refresh);
    if (filter || limit < rows.length) refresh();
    if (!("sortable" in block.dataset)) continue;
    const heads = all("thead th", block);
    heads.forEach((head, column) => {
      const title = one("span", head);
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = title.textContent;
      title.replaceWith(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", direction);
        const sign = direction === "ascending" ? 1 : -1;
        const key = (row) => {
          const cell = row.cells[column];
          return "value" in cell.dataset ? Number(cell.dataset.value.replace("inf", "Infinity")) : cell.textContent;
        };
        const compare = (a, b) => {
          const missing = (value) => value === "–" || value === "";
          // Missing values stay at the end in both directions.
          if (missing(a.key) || missing(b.key)) return missing(a.key) - missing(b.key);
          if (typeof a.key === "number" && typeof b.key === "number") return sign * (a.key === b.key ? 0 : a.key - b.key);
          return sign * String(a.key).localeCompare(String(b.key), undefined, { numeric: true });
        };
        const sorted = rows.map((row) => ({ row, key: key(row) })).sort(compare);
        body.append(...sorted.map((entry) => entry.row));
        refresh();
      });
    });
  }

  // One row of scores and its calibrated probabilities.
  const example = one("#example");
  if (example) {
    const graph = JSON.parse(example.dataset.graph);
    const fields = all("input.score", example);
    const result = one("#example-result");
    const names = all("tbody th", example).map((head) => head.textContent);
    example.classList.add("live");
    const calibrate = () => {
      const scores = fields.map((field) => field.valueAsNumber);
      const total = example.dataset.space === "probabilities" ? scores.reduce((sum, score) => sum + score, 0) : 1;
      try {
        const [row] = globalThis.calibrant.run(graph, [scores.map((score) => score / total)]);
        all("td.calibrated", example).forEach((cell, column) => { cell.textContent = row[column].toFixed(4); });
        all(".given", example).forEach((text, column) => { text.textContent = fields[column].value; });
        const top = row.indexOf(Math.max(...row));
        result.textContent = `Most probable: ${names[top]}, ${row[top].toFixed(4)}.`;
      } catch {
        for (const cell of all("td.calibrated", example)) cell.textContent = "–";
        result.textContent = "Enter a finite number for every class; probabilities must not be negative.";
      }
    };
    for (const field of fields) field.addEventListener("input", calibrate);
    calibrate();
  }

  // Open everything for printing.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open]):not(.gallery)");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
