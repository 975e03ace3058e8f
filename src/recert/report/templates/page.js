"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;

  // Theme: the reader's system decides until the button is used. Storage may be forbidden for pages on disk.
  const remembered = { get: () => { try { return localStorage.getItem("recert-theme"); } catch { return null; } },
                       set: (value) => { try { localStorage.setItem("recert-theme", value); } catch { /* not kept */ } } };
  const theme = $("#theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(dark()));
  if (["dark", "light"].includes(remembered.get())) root.dataset.theme = remembered.get();
  theme.hidden = false;
  showTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; remembered.set(root.dataset.theme); showTheme(); });

  // The table of inputs: the page holds it for the first result, the data for all of them.
  const { results, texts } = JSON.parse($("#data").textContent);
  const table = $("#inputs"), body = $("tbody", table);
  const rows = $$("tr", body);
  let chosen = 0;
  const stored = (row, column) => {
    const from = results[chosen], i = Number(row.dataset.row);
    return from.texts.includes(column) ? texts[from[column][i]] : from[column][i];
  };
  const change = (row) => stored(row, "was") === null ? 0 : stored(row, "radius") - stored(row, "was");
  const number = (text) => text !== "" && !isNaN(text) ? Number(text) : text;
  const value = (row, column) => {
    if (column === "change") return change(row);
    if (column === "was" && stored(row, column) === null) return 0;
    if (column === "flips") return isNaN(parseInt(stored(row, column))) ? -1 : parseInt(stored(row, column).replaceAll(",", ""));
    if (!(column in results[chosen])) return number($(`[data-column="${column}"]`, row).textContent.trim());
    return number(stored(row, column));
  };
  const signed = (x) => { const text = Math.abs(x).toFixed(3); return Number(text) ? (x < 0 ? "−" : "+") + text : "0"; };
  const telling = (row) => stored(row, "what") !== "" || stored(row, "verdict") === "abstained";
  const fill = (row) => {
    const put = (column, text, inside = "") => { const cell = $(`[data-column="${column}"]${inside}`, row); if (cell) cell.textContent = text; };
    put("prediction", stored(row, "prediction"), " span");
    const verdict = $(".verdict", row);
    verdict.textContent = stored(row, "verdict");
    verdict.className = `verdict ${stored(row, "verdict")}`;
    for (const column of ["was", "radius"]) put(column, stored(row, column) > 0 ? stored(row, column).toFixed(3) : "–");
    put("change", stored(row, "was") > 0 || stored(row, "radius") > 0 ? signed(change(row)) : "–");
    put("flips", stored(row, "flips"));
    put("passes", stored(row, "passes").toLocaleString("en-US"));
    put("outcome", stored(row, "outcome"), " span");
    put("outcome", stored(row, "what"), " small");
    row.classList.toggle("telling", telling(row));
  };

  const status = $("#count"), search = $("#search"), verdicts = $("#verdict"), outcomes = $("#outcome"), what = $("#what"), changed = $("#changed");
  const filter = () => {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      const fits = words.every((word) => text.includes(word))
        && (!verdicts.value || stored(row, "verdict") === verdicts.value)
        && (!outcomes.value || stored(row, "outcome") === outcomes.value)
        && (!what || !what.value || stored(row, "what") === what.value)
        && (!changed || !changed.checked || !results[chosen].compared || stored(row, "what") !== "");
      row.hidden = !fits;
      shown += fits;
    }
    status.textContent = `${shown.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} inputs`;
  };
  for (const control of [search, verdicts, outcomes, what, changed]) if (control) control.addEventListener("input", filter);

  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  const sorted = () => $("th[aria-sort]:not([aria-sort=none])", table);
  const sort = () => {
    const head = sorted();
    if (!head) return;
    const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1, column = head.dataset.sort;
    const keyed = rows.map((row) => [value(row, column), Number(row.dataset.row), row]);
    keyed.sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1]);
    body.append(...keyed.map((entry) => entry[2]));
  };
  const sortBy = (column, direction) => {
    for (const other of $$("th[aria-sort]", table)) other.setAttribute("aria-sort", other.dataset.sort === column ? direction : "none");
    $("#sort").value = column;
    sort();
  };
  for (const button of $$("th button", table)) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      sortBy(head.dataset.sort, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
    });
  }
  $("#sort").addEventListener("change", () => sortBy($("#sort").value, "ascending"));

  const select = $("#result");
  const show = () => {
    chosen = select ? Number(select.value) : 0;
    for (const panel of $$("[data-panel]")) panel.hidden = Number(panel.dataset.panel) !== chosen;
    for (const line of $$("[data-verdict]")) line.classList.toggle("chosen", rows.length && results.length > 1 && Number(line.dataset.verdict) === chosen);
    const compared = results[chosen].compared;
    table.classList.toggle("plain", !compared);
    if (changed) changed.disabled = !compared;
    rows.forEach(fill);
    if (!compared && sorted() && sorted().classList.contains("compared")) sortBy("position", "ascending");
    else sort();
    filter();
  };
  if (select) {
    select.closest("label").hidden = false;
    document.body.classList.add("several");
    $(".choose").hidden = false;
    select.addEventListener("change", () => { show(); $("#said").textContent = $(`[data-panel="${chosen}"]`).dataset.said; });
    // A row of the verdict chooses its model, too; the choice above does the same by keyboard.
    for (const line of $$("[data-verdict]")) line.addEventListener("click", () => { select.value = line.dataset.verdict; select.dispatchEvent(new Event("change")); });
  }
  $(".tools").hidden = false;
  if (results[0].compared) $("#sort").value = "change";
  show();
})();
