// The server's API. Every error is an Error with a sentence; a vote whose token is too old gets a new one, once.

let token = document.querySelector('meta[name="token"]').content;

export class Refused extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "the server refused");
    this.status = problem.status;
  }
}

function headers(more = {}) {
  const key = sessionStorage.getItem("key");
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function fetched(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { ...options, headers: headers(options.headers), credentials: "omit" });
  } catch {
    throw new Error("The server cannot be reached.");
  }
  if (answer.ok) return answer;
  let problem = { status: answer.status, detail: `The server answered ${answer.status}.` };
  if ((answer.headers.get("content-type") || "").includes("json")) problem = await answer.json();
  throw new Refused(problem);
}

export async function read(address) {
  return (await fetched(address)).json();
}

export async function picture(address) {
  return URL.createObjectURL(await (await fetched(address)).blob());
}

export async function identify(files) {
  const form = new FormData();
  for (const file of files) form.append("images", file);
  return (await fetched("/v1/identify", { method: "POST", body: form })).json();
}

async function sendVote(vote) {
  const more = { "content-type": "application/json", "x-shortlist-token": token };
  return (await fetched("/v1/votes", { method: "POST", headers: more, body: JSON.stringify(vote) })).json();
}

export async function vote(decided) {
  try {
    return await sendVote(decided);
  } catch (error) {
    if (error.status !== 403) throw error;
    token = (await read("/v1/token")).token; // the server may have been started again
    return sendVote(decided);
  }
}
