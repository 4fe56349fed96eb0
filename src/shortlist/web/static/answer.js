// An answer: the set first, each class with its probability and pictures to compare, the other candidates behind a fold.

import { element, find, percent } from "./elements.js";
import { compare } from "./viewer.js";

function strip(title, pictures, all, mine) {
  if (!pictures.length) return null;
  const items = pictures.map((picture) => {
    const name = `Compare with ${picture.kind} picture ${all.indexOf(picture) + 1} of ${picture.name}`;
    const image = element("img", { src: picture.url.s, alt: "", loading: "lazy", width: 92, height: 92 });
    const button = element("button", { type: "button", "aria-label": name, onclick: () => compare(mine(), all, all.indexOf(picture)) }, image);
    return element("li", {}, button);
  });
  return element("div", { class: "strip" }, element("h4", {}, title), element("ul", { tabindex: 0, role: "list", "aria-label": title }, ...items));
}

function card(result, answer, mine, decide, number) {
  const name = result.species.scientificName;
  const genus = result.species.genus;
  const pictures = result.images.map((picture) => ({ ...picture, name }));
  const of = (kind) => pictures.filter((picture) => picture.kind === kind);
  const probable = answer.scoresAre === "probabilities";
  const title = element("h3", {}, number ? `${number}. ${name}` : name, genus ? element("span", { class: "above" }, genus.scientificName) : null);
  const choose = element("button", { type: "button", class: "choose", "aria-label": `It is ${name}`, onclick: () => decide("label", name) }, "It is this one");
  const line = element("div", { class: "line" }, title, element("span", { class: "p" }, probable ? percent(result.score) : ""), choose);
  const meter = probable ? element("meter", { min: 0, max: 1, value: result.score, "aria-label": `Probability of ${name}` }, percent(result.score)) : null;
  const strips = element("div", { class: "strips" }, strip("Most similar", of("similar"), pictures, mine), strip("Typical", of("typical"), pictures, mine));
  return element("li", { class: "candidate", "data-name": name }, line, meter, strips);
}

export function showAnswer(answer, mine, decide, numbered = false) {
  const set = answer.results.filter((result) => result.inSet);
  const others = answer.results.filter((result) => !result.inSet);
  find("headline").textContent = answer.headline;
  const number = (place) => (numbered && place < 9 ? place + 1 : 0);
  find("set").replaceChildren(...set.map((result, place) => card(result, answer, mine, decide, number(place))));
  find("further").replaceChildren(...others.map((result, place) => card(result, answer, mine, decide, number(set.length + place))));
  const fold = find("others");
  fold.hidden = !others.length;
  fold.open = false;
  fold.querySelector("summary").textContent = `${others.length} other candidate${others.length === 1 ? "" : "s"}`;
  if (find("guarantee")) find("guarantee").textContent = `Rule ${answer.rule.text}: ${answer.rule.guarantee}`;
  find("answer").hidden = false;
}

export function markChosen(name) {
  for (const card of document.querySelectorAll(".candidate")) card.classList.toggle("chosen", card.dataset.name === name);
}
