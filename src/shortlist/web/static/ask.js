// The first page: photographs in, an answer out, and what the person decides.

import { markChosen, showAnswer } from "./answer.js";
import { element, find, person, showError, voter } from "./elements.js";
import { identify, vote } from "./server.js";

let files = [];
let addresses = [];
let answer = null;

function choose(chosen) {
  files = [...chosen].filter((file) => file.type.startsWith("image/") || !file.type);
  addresses.forEach(URL.revokeObjectURL);
  addresses = files.map((file) => URL.createObjectURL(file));
  find("previews").replaceChildren(...addresses.map((address, place) => element("li", {}, element("img", { src: address, alt: `Photograph ${place + 1}` }))));
  find("identify").disabled = !files.length;
  find("clear").hidden = !files.length;
  find("answer").hidden = true;
  find("status").textContent = "";
  showError(files.length || !chosen.length ? null : new Error("Choose picture files."));
}

async function ask() {
  showError(null);
  find("identify").disabled = true;
  find("status").textContent = "Looking …";
  try {
    answer = await identify(files);
    showAnswer(answer, () => addresses[0], decide);
    find("voted").textContent = "";
    find("status").textContent = "";
    find("headline").focus();
  } catch (error) {
    find("status").textContent = "";
    find("answer").hidden = true;
    showError(error);
  } finally {
    find("identify").disabled = !files.length;
  }
}

async function decide(choice, label = null) {
  const place = find("voted");
  try {
    const decided = { voter: voter(), choice, label };
    try {
      await vote({ id: answer.id, ...decided });
    } catch (error) {
      if (error.status !== 410) throw error;
      answer = await identify(files); // forgotten meanwhile: asked again
      await vote({ id: answer.id, ...decided });
    }
    place.className = "good";
    place.textContent = choice === "label" ? `Thank you: ${label}.` : "Thank you: this goes to the review.";
    markChosen(label);
  } catch (error) {
    place.className = "bad";
    place.textContent = error.message;
  }
}

const drop = find("drop");
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.remove("over"); });
drop.addEventListener("drop", (event) => { choose(event.dataTransfer.files); if (files.length) ask(); });
document.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { choose(event.clipboardData.files); ask(); } });
find("images").addEventListener("change", (event) => choose(event.target.files));
find("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
find("clear").addEventListener("click", () => { find("images").value = ""; choose([]); find("images").focus(); });
for (const button of document.querySelectorAll("[data-choice]")) button.addEventListener("click", () => decide(button.dataset.choice));
person();
