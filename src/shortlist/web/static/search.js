// Search by what pictures show.

import { element, find, percent, sentence, showError } from "./elements.js";
import { read } from "./server.js";

function card(result) {
  const image = result.url ? element("img", { src: result.url.s, alt: "", loading: "lazy" }) : null;
  const why = result.why.slice(0, 6).map((one) => element("div", { class: "muted small" }, `${one.label} ${percent(one.probability)}`));
  return element("li", {}, image, element("div", { class: "about" }, element("strong", {}, percent(result.probability)), element("div", {}, result.id), ...why));
}

async function search() {
  showError(null);
  const text = find("query").value.trim();
  if (!text) return;
  history.replaceState(null, "", `/search?q=${encodeURIComponent(text)}`);
  try {
    const found = await read(`/v1/search?q=${encodeURIComponent(text)}`);
    find("found").replaceChildren(...found.results.map(card));
    const none = found.note ? sentence(found.note) : `No row of ${found.rows} can satisfy the query.`;
    find("status").textContent = found.results.length ? `The ${found.results.length} most probable of ${found.rows} rows.` : none;
  } catch (error) {
    find("found").replaceChildren();
    find("status").textContent = "";
    showError(error);
  }
}

find("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
if (find("query").value) search();
