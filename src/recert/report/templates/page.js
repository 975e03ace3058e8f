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
  const body = $("#inputs tbody");
  const rows = $$("tr", body);
  let chosen = 0;
  const value = (row, column) => {
    const table = results[chosen];
    if (!(column in table)) { const shown = $(`[data-column="${column}"]`, row).textContent.trim(); return shown !== "" && !isNaN(shown) ? Number(shown) : shown; }
    const stored = table[column][Number(row.dataset.row)];
    if (!table.texts.includes(column)) return stored;
    const text = texts[stored];
    return column === "flips" ? (isNaN(parseInt(text)) ? -1 : parseInt(text)) : text !== "" && !isNaN(text) ? Number(text) : text;
  };
  const fill = (row) => {
    const table = results[chosen], i = Number(row.dataset.row);
    const said = (column) => table.texts.includes(column) ? texts[table[column][i]] : table[column][i];
    $('[data-column="prediction"] span', row).textContent = said("prediction");
    const verdict = $(".verdict", row);
    verdict.textContent = said("verdict");
    verdict.className = `verdict ${said("verdict")}`;
    for (const column of ["radius", "lower"]) $(`[data-column="${column}"]`, row).textContent = said(column) > 0 ? said(column).toFixed(4) : "–";
    $('[data-column="flips"]', row).textContent = said("flips");
    $('[data-column="passes"]', row).textContent = said("passes").toLocaleString("en-US");
    $('[data-column="outcome"] span', row).textContent = said("outcome");
    $('[data-column="outcome"] small', row).textContent = said("explanation");
  };

  const status = $("#count"), search = $("#search"), verdicts = $("#verdict"), outcomes = $("#outcome");
  const filter = () => {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const i = Number(row.dataset.row), table = results[chosen];
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word))
        && (!verdicts.value || texts[table.verdict[i]] === verdicts.value)
        && (!outcomes.value || texts[table.outcome[i]] === outcomes.value);
      row.hidden = !fits;
      shown += fits;
    }
    status.textContent = `${shown} of ${rows.length} inputs`;
  };
  for (const control of [search, verdicts, outcomes]) control.addEventListener("input", filter);

  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  const sort = () => {
    const head = $("#inputs th[aria-sort]:not([aria-sort=none])");
    if (!head) return;
    const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1, column = head.dataset.sort;
    const keyed = rows.map((row) => [value(row, column), Number(row.dataset.row), row]);
    keyed.sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1]);
    body.append(...keyed.map((entry) => entry[2]));
  };
  for (const button of $$("#inputs th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), ascending = head.getAttribute("aria-sort") === "ascending";
      for (const other of $$("#inputs th[aria-sort]")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", ascending ? "descending" : "ascending");
      sort();
    });
  }

  const select = $("#result");
  const show = () => {
    chosen = select ? Number(select.value) : 0;
    for (const panel of $$("[data-panel]")) panel.hidden = Number(panel.dataset.panel) !== chosen;
    rows.forEach(fill);
    sort();
    filter();
  };
  if (select) { select.closest("label").hidden = false; select.addEventListener("change", show); }
  $(".tools").hidden = false;
  show();
})();
