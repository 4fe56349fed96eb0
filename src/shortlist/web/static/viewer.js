// The larger view: the photograph beside a reference, with the arrow keys from one to the next.

import { find } from "./elements.js";

let shown = [];
let place = 0;

function show() {
  const picture = shown[place];
  find("viewer-theirs").src = picture.url.o;
  find("viewer-theirs").alt = `${picture.name}, ${picture.kind}`;
  const credit = [picture.credit, picture.licence].filter(Boolean).join(", ");
  find("viewer-caption").textContent = `${picture.name} · ${picture.kind} · ${place + 1} of ${shown.length}${credit ? ` · ${credit}` : ""}`;
}

function move(step) {
  place = (place + step + shown.length) % shown.length;
  show();
}

export function compare(mine, pictures, start) {
  [shown, place] = [pictures, start];
  find("viewer-mine").src = mine;
  show();
  find("viewer").showModal();
}

find("viewer-before").addEventListener("click", () => move(-1));
find("viewer-next").addEventListener("click", () => move(1));
find("viewer").addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") move(-1);
  if (event.key === "ArrowRight") move(1);
});
