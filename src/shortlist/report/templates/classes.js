"use strict";
// The table of all classes: sorting, filtering, more rows, CSV. Names of classes are only ever set as text.
for (const box of document.querySelectorAll(".classes")) {
  const columns = JSON.parse(box.querySelector("script").textContent);
  const table = box.querySelector("table"), count = box.querySelector(".count"), more = box.querySelector(".more");
  const filter = box.querySelector(".filter"), least = box.querySelector(".least"), PAGE = 50;
  const rows = columns[0].values.length, support = columns.find(c => c.title.split(",")[0] === "rows");
  const first = columns.findIndex(c => c.low);
  let by = first, down = false, shown = 12;

  function text(column, row) {
    const value = column.values[row];
    if (value === null) return "–";
    if (typeof value === "string") return value;
    const digits = +(column.form.match(/\.(\d)/) || [0, 0])[1], sign = column.form.startsWith("+") && value >= 0 ? "+" : "";
    const percent = column.form.endsWith("%");
    const number = sign + (percent ? 100 * value : value).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits}) + (percent ? "%" : "");
    return column.low && column.low[row] !== null ? `${number} (${(100 * column.low[row]).toFixed(0)}–${(100 * column.high[row]).toFixed(0)})` : number;
  }
  function compare(a, b) {
    const values = columns[by].values, x = values[a], y = values[b];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    const order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return (down ? -order : order) || (support ? support.values[b] - support.values[a] : 0) || a - b;
  }
  function chosen() {
    const words = filter.value.trim().toLowerCase(), smallest = +least.value || 0, found = [];
    const texts = columns.filter(c => !c.form);
    for (let row = 0; row < rows; row++)
      if ((!support || support.values[row] >= smallest) && (!words || texts.some(c => String(c.values[row]).toLowerCase().includes(words)))) found.push(row);
    return by < 0 ? found : found.sort(compare);
  }
  function draw() {
    const found = chosen(), body = document.createElement("tbody");
    for (const row of found.slice(0, shown)) {
      const line = body.insertRow();
      for (const column of columns) {
        const cell = line.insertCell();
        cell.textContent = text(column, row);
        if (column.form) cell.className = "number";
      }
    }
    table.tBodies[0].replaceWith(body);
    count.textContent = `${Math.min(shown, found.length).toLocaleString("en")} of ${found.length.toLocaleString("en")} classes`;
    more.hidden = shown >= found.length;
    [...table.tHead.rows[0].cells].forEach((cell, place) => cell.setAttribute("aria-sort", place !== by ? "none" : down ? "descending" : "ascending"));
  }
  [...table.tHead.rows[0].cells].forEach((cell, place) => {
    const button = document.createElement("button");
    button.textContent = cell.textContent;
    button.title = cell.title;
    button.addEventListener("click", () => { down = by === place ? !down : !!columns[place].form; by = place; draw(); });
    cell.replaceChildren(button);
  });
  function quoted(value) {
    const cell = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(cell) ? '"' + cell.replaceAll('"', '""') + '"' : cell;
  }
  box.querySelector(".csv").addEventListener("click", () => {
    const parts = columns.flatMap(c => c.low ? [[c.title, c.values], [c.title + ", low", c.low], [c.title + ", high", c.high]] : [[c.title, c.values]]);
    const lines = [parts.map(p => quoted(p[0])).join(",")];
    for (let row = 0; row < rows; row++) lines.push(parts.map(p => quoted(p[1][row])).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "text/csv"}));
    link.download = "classes.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  filter.addEventListener("input", draw);
  least.addEventListener("input", draw);
  more.addEventListener("click", () => { shown += PAGE; draw(); });
  box.querySelector(".tools").hidden = false;
  draw();
}
