// Small pieces of the pages. Texts are set as text, never as markup, whatever a label says.

export const find = (name) => document.getElementById(name);

export function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function showError(error) {
  const place = find("error");
  place.hidden = error === null;
  place.textContent = error === null ? "" : sentence(error.message);
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export function percent(probability) {
  if (probability < 0.001) return "<0.1 %";
  if (probability > 0.999) return ">99.9 %";
  return `${(100 * probability).toFixed(probability >= 0.1 && probability <= 0.99 ? 0 : 1)} %`;
}

// Who votes, remembered for as long as the page is open.
export function person() {
  for (const name of ["voter", "key"]) {
    const field = find(name);
    if (!field) continue;
    field.value = sessionStorage.getItem(name) || "";
    field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
  }
  find("person").addEventListener("submit", (event) => event.preventDefault());
}

export function voter() {
  const field = find("voter");
  if (field.value.trim()) return field.value.trim();
  field.focus();
  throw new Error("Tell your name first: a vote is somebody's.");
}
