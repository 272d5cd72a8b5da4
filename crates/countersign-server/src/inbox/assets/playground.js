// Keeps the playground up to date: streams the agent's words, and updates the card when it is decided elsewhere. The
// page also works without this script.

import { complain, find, idOf, parse, patch, setClock, tick } from "./cards.js";
import { t } from "./words.js";

const main = document.getElementById("main");
const lines = document.getElementById("lines");
const log = document.getElementById("log");
const place = document.getElementById("card");
const form = document.getElementById("say");
const field = form.elements.text;
const problem = document.getElementById("problem");
const link = document.getElementById("link");
const here = location.pathname + location.search;
const headers = { "countersign-fragment": "1" };

// ---- refreshing ----

// Line with the agent's words as they stream in. Everything already in the session is rendered by the server.
let coming = null;
let old = [];

function speak(text) {
  if (!coming) {
    coming = add("agent coming", "");
    document.querySelectorAll(".thinking").forEach((each) => each.remove());
  }
  coming.textContent += text;
}

function add(kind, text) {
  lines.querySelector(".hello")?.remove();
  const line = document.createElement("p");
  line.className = "line " + kind;
  line.textContent = text;
  lines.append(line);
  log.scrollTop = 0;
  return line;
}

// Marks the streamed line as saved in the session: the next refresh replaces it.
function settle() {
  if (coming) old.push(coming);
  coming = null;
}

// Runs one refresh at a time. A change during a refresh causes another one.
let reading = null;
let isWanted = false;
function refresh() {
  if (reading) isWanted = true;
  else reading = read().finally(() => {
    reading = null;
    if (isWanted) { isWanted = false; refresh(); }
  });
  return reading;
}

async function read() {
  const gone = old;
  old = [];
  const page = await load(here);
  if (!page) { old = gone.concat(old); return; }
  setClock(page.getElementById("main").dataset.now);
  drawLines(page, gone);
  drawCard(page);
  document.getElementById("trace").replaceWith(page.getElementById("trace"));
  const fresh = page.getElementById("say");
  form.elements.after.value = fresh.elements.after.value;
  field.placeholder = fresh.elements.text.placeholder;
}

async function load(path) {
  try {
    const response = await fetch(path, { headers, redirect: "manual" });
    if (response.status === 401) return signedOut();
    return response.status === 200 ? parse(await response.text()) : null;
  } catch {
    return null;
  }
}

// A message that is neither an answer to a card nor meant for the agent, such as "ok" where a yes is needed, is not in
// the session. Its line stays where it is.
const isYours = (line) => line.classList.contains("you");
const keepUnheard = (line) => line?.classList.replace("sending", "unheard");
const said = (line) => line.lastChild?.textContent.trim();
const mine = (text) => lines.querySelector(".sending") || [...lines.querySelectorAll(".unheard")].find((line) => said(line) === text);

// Adds new lines. Existing ones stay, so that screen readers do not read them again.
function drawLines(page, gone) {
  const fresh = [...page.querySelectorAll("#lines > .line")];
  const there = [...lines.querySelectorAll(".line:not(.coming, .sending, .thinking, .unheard)")];
  if (!fresh.length) return;
  gone.forEach((line) => line.remove());
  lines.querySelector(".hello")?.remove();
  const added = fresh.slice(there.length);
  if (added.length && !added.some(isYours)) keepUnheard(lines.querySelector(".sending"));
  const first = lines.querySelector(".sending, .coming, .thinking");
  for (const line of added) {
    if (isYours(line)) mine(said(line))?.remove();
    const mark = first?.isConnected ? first : lines.querySelector(".coming, .thinking");
    if (mark) mark.before(line);
    else lines.append(line);
  }
}

function drawCard(page) {
  const fresh = page.querySelector("#card > .card");
  const shown = place.querySelector(".card");
  if (fresh && shown && idOf(fresh) === idOf(shown)) patch(shown, fresh);
  else if (fresh) place.replaceChildren(fresh);
  if (fresh && (!shown || idOf(fresh) !== idOf(shown))) aloud(fresh.querySelector("h2").textContent.trim());
}

const aloud = (text) => { document.getElementById("say-aloud").textContent = text; };

function complainHere(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

// ---- saying something ----

const newKey = () => [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function isBusy(is) {
  form.querySelector("button").disabled = is;
  document.querySelectorAll(".openings button").forEach((button) => { button.disabled = is; });
  document.querySelectorAll(".thinking").forEach((each) => each.remove());
  if (is) add("agent thinking", "…");
}

async function say(event) {
  const sent = event.target;
  if (!sent.matches(".say, .openings")) return;
  event.preventDefault();
  if (form.querySelector("button").disabled) return;
  const body = new URLSearchParams(new FormData(sent, event.submitter));
  body.set("after", form.elements.after.value);
  body.set("key", newKey());
  const text = body.get("text").trim();
  if (!text) return;
  complainHere("");
  const line = add("you sending", text);
  field.value = "";
  isBusy(true);
  const fail = (why) => {
    line.remove();
    if (!field.value) field.value = text;
    isBusy(false);
    complainHere(why);
  };
  try {
    const response = await fetch(form.action, { method: "POST", body, headers });
    if (response.status === 401) return signedOut();
    if (response.status === 202) return undefined;
    return fail(parse(await response.text()).querySelector(".problem")?.textContent.trim() || t("The service did not understand."));
  } catch {
    return fail(t("The service did not answer, so it may or may not have heard you."));
  }
}

// ---- deciding, beside the talk ----

async function decide(event) {
  const sent = event.target;
  const button = event.submitter;
  if (!sent.matches(".decide") || !button?.value) return;
  event.preventDefault();
  const card = sent.closest(".card");
  const body = new URLSearchParams(new FormData(sent, button));
  const buttons = sent.querySelectorAll("button");
  buttons.forEach((each) => { each.disabled = true; });
  const again = (text) => {
    complain(card, text);
    buttons.forEach((each) => { each.disabled = false; });
  };
  try {
    const response = await fetch(sent.action, { method: "POST", body, headers });
    if (response.status === 401) return signedOut();
    const page = parse(await response.text());
    const answer = page.querySelector(".card");
    if (!answer) return again(page.querySelector(".problem")?.textContent.trim() || t("The service did not understand."));
    patch(find(idOf(card)) || card, answer, true);
    field.focus({ preventScroll: true });
    return refresh();
  } catch {
    return again(t("The service did not answer, so it may or may not have heard you. Trying again is safe."));
  }
}

// ---- undoing, beside the talk ----

async function undo(event) {
  const sent = event.target;
  if (!sent.matches(".after") || sent.elements.from?.value !== "playground") return;
  event.preventDefault();
  if (form.querySelector("button").disabled) return;
  const body = new URLSearchParams(new FormData(sent));
  const fail = (text) => {
    isBusy(false);
    complain(sent.closest(".card"), text);
  };
  complainHere("");
  isBusy(true);
  try {
    const response = await fetch(sent.action, { method: "POST", body, headers });
    if (response.status === 401) return signedOut();
    if (response.status === 202) return undefined;
    return fail(parse(await response.text()).querySelector(".problem")?.textContent.trim() || t("The service did not understand."));
  } catch {
    return fail(t("The service did not answer, so it may or may not have heard you."));
  }
}

// ---- the connection ----

let source = null;
function connect() {
  if (source || document.hidden) return;
  source = new EventSource(location.pathname + "/live" + location.search);
  // Reloads what was missed while disconnected, and stops waiting for events that may have been among it.
  source.onopen = () => {
    link.hidden = true;
    main.dataset.live = "on";
    settle();
    isBusy(false);
    refresh();
  };
  source.onerror = () => {
    link.hidden = false;
    link.className = "link lost";
    link.textContent = t("Connection lost, trying again…");
    if (source?.readyState === EventSource.CLOSED) {
      close();
      setTimeout(connect, 1500);
    }
  };
  const on = (kind, act) => source.addEventListener(kind, (event) => act(JSON.parse(event.data)));
  on("text", ({ text }) => speak(text));
  on("heard", refresh);
  on("changed", () => { settle(); refresh(); });
  on("again", () => { coming?.remove(); coming = null; });
  on("notice", ({ text }) => complainHere(text));
  on("failed", ({ message, hint }) => {
    coming?.remove();
    coming = null;
    isBusy(false);
    complainHere(message + " " + hint);
    refresh();
  });
  on("done", () => {
    settle();
    isBusy(false);
    const sent = lines.querySelector(".sending");
    refresh().then(() => keepUnheard(sent));
  });
}

// Disconnects. A hidden page holds no connection, because browsers limit the number per host.
function close() {
  source?.close();
  source = null;
}

function signedOut() {
  close();
  link.hidden = false;
  link.className = "link lost";
  const again = document.createElement("a");
  again.href = "/sign-in?next=" + encodeURIComponent(location.pathname);
  again.textContent = t("You are signed out. Sign in");
  link.replaceChildren(again);
  return null;
}

// ---- start ----

setClock(main.dataset.now);
document.addEventListener("submit", say);
document.addEventListener("submit", decide);
document.addEventListener("submit", undo);
document.addEventListener("visibilitychange", () => (document.hidden ? close() : connect()));
field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
setInterval(() => { if (tick().length) setTimeout(refresh, 700); }, 1000);
addEventListener("pageshow", (event) => { if (event.persisted) refresh(); });
field.focus({ preventScroll: true });
connect();
