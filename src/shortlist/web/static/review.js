// The review: one thing after the other, by mouse or keyboard.

import { showAnswer } from "./answer.js";
import { element, find, person, sentence, showError, voter } from "./elements.js";
import { picture, read, vote } from "./server.js";

let items = [];
let current = null;
let seen = new Set(); // skipped

async function load() {
  showError(null);
  const name = find("voter").value.trim();
  try {
    items = (await read(`/v1/review?voter=${encodeURIComponent(name)}`)).items.filter((item) => !seen.has(item.id));
    await Promise.all([next(), watch()]);
  } catch (error) {
    showError(error);
  }
}

async function watch() {
  const told = await read("/v1/watch");
  if (!told.sentences) return;
  const kind = (place) => (!told.watching || place < told.changes ? "note" : "muted small");
  find("watch").replaceChildren(...told.sentences.map((text, place) => element("p", { class: kind(place) }, sentence(text))));
  find("watch").hidden = false;
}

async function next() {
  current = items.shift() || null;
  find("status").textContent = current ? `${items.length + 1} to look at` : "Nothing needs eyes.";
  find("answer").hidden = current === null;
  if (!current) return;
  const answer = await read(`/v1/review/${current.id}`);
  const photographs = await Promise.all(answer.query.images.map((_, place) => picture(`/v1/review/${current.id}/${place}.jpg`)));
  find("previews").replaceChildren(...photographs.map((address, place) => element("li", {}, element("img", { src: address, alt: `Photograph ${place + 1}` }))));
  showAnswer(answer, () => photographs[0], decide, true);
  find("reason").textContent = `${sentence(current.reason)} ${current.sentence}`;
  find("voted").textContent = "";
  find("headline").focus();
}

async function decide(choice, label = null) {
  if (!current) return;
  try {
    await vote({ id: current.id, voter: voter(), choice, label });
    find("label").value = "";
    await next();
  } catch (error) {
    find("voted").className = "bad";
    find("voted").textContent = error.message;
  }
}

function skip() {
  if (current) seen.add(current.id);
  next().catch(showError);
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey || find("viewer").open || !current) return;
  if (event.key === "n") decide("none");
  else if (event.key === "u") decide("unsure");
  else if (event.key === "s") skip();
  else if (/^[1-9]$/.test(event.key)) document.querySelectorAll(".candidate")[Number(event.key) - 1]?.querySelector(".choose").click();
});
find("skip").addEventListener("click", skip);
find("another").addEventListener("submit", (event) => { event.preventDefault(); if (find("label").value) decide("label", find("label").value); });
for (const button of document.querySelectorAll("[data-choice]")) button.addEventListener("click", () => decide(button.dataset.choice));
person();
find("person").addEventListener("change", load);
read("/v1/classes").then(({ classes }) => find("classes").replaceChildren(...classes.map((name) => element("option", { value: name })))).catch(showError);
load();
