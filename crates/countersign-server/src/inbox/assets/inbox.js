// Keeps the inbox up to date without reloading. The pages also work without this script.

import { cards, complain, find, fitsQuietly, handle, idOf, insert, isGrave, isPending, parse, patch, recount, say, setClock, tick } from "./cards.js";
import { several } from "./several.js";
import { t } from "./words.js";
import { listen } from "./live.js";
import { keys } from "./keys.js";

const main = document.getElementById("main");
const list = document.getElementById("cards");
const link = document.getElementById("link");
const fresh = document.getElementById("fresh");
const isList = main.dataset.live === "list";
const waiting = new Map();

const query = () => list.dataset.query ? "?" + list.dataset.query : "";
const isFull = (id) => find(id)?.classList.contains("full");

async function load(path) {
  try {
    const response = await fetch(path, { headers: { "countersign-fragment": "1" }, redirect: "manual" });
    if (response.status === 401) return signedOut();
    return response.status === 200 ? parse(await response.text()) : null;
  } catch {
    return null;
  }
}

// ---- refreshing ----

// Requests for one card run one after another, so that an older response never replaces a newer one.
const loading = new Map();
function refresh(id) {
  const before = loading.get(id) || Promise.resolve();
  const next = before.then(() => (isList ? refreshCard(id) : refreshPage(id)));
  loading.set(id, next);
  next.finally(() => loading.get(id) === next && loading.delete(id));
  return next;
}

async function refreshCard(id) {
  const how = isFull(id) ? (query() ? query() + "&full=1" : "?full=1") : query();
  const page = await load(`/approvals/${id}/card${how}`);
  const card = page?.querySelector(".card");
  if (!card) return;
  const old = find(id);
  if (waiting.has(id)) {
    // Decided or expired before the person has seen it.
    if (isPending(card)) waiting.set(id, card);
    else waiting.delete(id);
    offer();
  } else if (old) {
    if (isPending(old) && !isPending(card)) say(card.querySelector(".ended").textContent + ": " + titleOf(card));
    patch(old, card);
  } else if (isPending(card)) arrive(id, card);
  recount();
}

async function refreshPage(id) {
  if (id !== main.dataset.id) return;
  const page = await load(`/approvals/${id}${"edit" in main.dataset ? `?edit=${main.dataset.edit}` : ""}`);
  const card = page?.querySelector(".card");
  const old = find(id);
  if (!card || !old) return;
  if (isPending(old) && !isPending(card)) say(card.querySelector(".ended").textContent);
  patch(old, card);
  for (const part of ["facts", "timeline"]) document.getElementById(part).replaceWith(page.getElementById(part));
  localise();
}

// Shows times in the zone of the browser, and names the zone. Without script they are in UTC.
function localise() {
  const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  for (const time of document.querySelectorAll("time.stamp")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = zone.format(at);
  }
}

// Reloads everything: after a reconnect, and when the page is restored from the back/forward cache.
async function sync() {
  if (!isList) return refresh(main.dataset.id);
  const parts = [list.dataset.query, "stamp=" + list.dataset.stamp, "page=" + list.dataset.page].filter(Boolean);
  const page = await load("/approvals/cards?" + parts.join("&"));
  const there = page?.getElementById("cards");
  if (!there) return;
  list.dataset.stamp = there.dataset.stamp;
  list.dataset.total = there.dataset.total;
  setClock(there.dataset.now);
  const ids = new Set();
  for (const card of [...there.querySelectorAll(".card")]) {
    const id = idOf(card);
    ids.add(id);
    const old = find(id);
    if (!old) waiting.has(id) || arrive(id, card);
    else if (old.dataset.v !== card.dataset.v) refresh(id);
  }
  for (const id of [...cards().filter(isPending).map(idOf), ...waiting.keys()]) if (!ids.has(id)) refresh(id);
  recount();
}

// Batches events, which come in bursts: a few cards are loaded one by one, many by reloading the list.
const changed = new Set();
let soon = 0;
function happened(kind, { approval }) {
  if (kind !== "proposed" && !find(approval) && !waiting.has(approval)) return;
  changed.add(approval);
  soon ||= setTimeout(() => {
    soon = 0;
    const ids = [...changed];
    changed.clear();
    if (isList && ids.length > 8) sync();
    else ids.forEach(refresh);
  }, 30);
}

// ---- arrivals ----

const titleOf = (card) => card.querySelector("h2").textContent.trim();

function arrive(id, card) {
  if (list.dataset.page > 1) return;
  say(`New, ${card.classList[1]} risk: ${titleOf(card)}`);
  notify(card);
  if (fitsQuietly(card)) return insert(card);
  waiting.set(id, card);
  offer();
}

function offer() {
  const grave = [...waiting.values()].filter(isGrave).length;
  fresh.hidden = waiting.size === 0;
  fresh.textContent = t("{n} new", { n: waiting.size }) + (grave ? t(", {n} of high risk", { n: grave }) : "");
}

function showNew() {
  let first = null;
  for (const [id, card] of waiting) {
    const shown = insert(card);
    first ||= shown;
    refresh(id);
  }
  waiting.clear();
  offer();
  recount();
  if (first) handle(first).focus({ preventScroll: true });
  first?.scrollIntoView({ block: "nearest" });
}

// ---- deciding without leaving the page ----

function decide(event) {
  const form = event.target;
  const button = event.submitter;
  if (!form.matches(".decide") || !button?.value || button.value === "edit") return;
  event.preventDefault();
  send(form, new URLSearchParams(new FormData(form, button)));
}

// Sends the form of a card and shows what came of it on the card. Returns true if the card was decided.
async function send(form, body) {
  const card = form.closest(".card");
  const buttons = form.querySelectorAll("button");
  buttons.forEach((each) => { each.disabled = true; });
  const again = (text) => {
    complain(card, text);
    buttons.forEach((each) => { each.disabled = false; });
    return false;
  };
  try {
    const response = await fetch(form.action, { method: "POST", body, headers: { "countersign-fragment": "1" } });
    if (response.status === 401) return signedOut();
    const page = parse(await response.text());
    const answer = page.querySelector(".card");
    if (!answer) return again(page.querySelector(".problem")?.textContent || t("The service did not understand."));
    const shown = patch(card, answer, true);
    const problem = shown.querySelector(".problem");
    say(problem ? problem.textContent : shown.querySelector(".ended")?.textContent + ": " + titleOf(shown));
    if (!isPending(shown)) handle(shown).focus({ preventScroll: true });
    recount();
    if (!isList) refresh(main.dataset.id);
    return !problem;
  } catch {
    // Sending the same form again is idempotent.
    again(t("The service did not answer, so it may or may not have heard you. Trying again is safe."));
    lost();
    return false;
  }
}

async function expand(event) {
  const anchor = event.target.closest?.("a.all");
  if (!anchor || !isList || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const card = anchor.closest(".card");
  const page = await load(`/approvals/${idOf(card)}/card?full=1`);
  const whole = page?.querySelector(".card");
  if (!whole) return location.assign(anchor.href);
  whole.querySelector("[name=comment]")?.replaceWith(card.querySelector("[name=comment]"));
  card.replaceWith(whole);
  whole.focus({ preventScroll: true });
}

// ---- the connection ----

let wasLost = false;
function lost() {
  wasLost = true;
  show("lost", t("Connection lost, trying again…"));
}

function opened() {
  if (wasLost) {
    wasLost = false;
    show("live", t("Connected again"));
    setTimeout(() => { if (!wasLost) link.hidden = true; }, 3000);
  }
  sync();
}

function show(kind, text) {
  link.hidden = false;
  link.className = "link " + kind;
  if (link.textContent !== text) link.textContent = text;
}

function signedOut() {
  show("lost", "");
  const again = document.createElement("a");
  again.href = "/sign-in?next=" + encodeURIComponent(location.pathname);
  again.textContent = t("You are signed out. Sign in");
  link.replaceChildren(again);
  document.title = t("Signed out") + " · Countersign";
  return null;
}

// ---- notifications ----

const button = document.getElementById("notify");

function offerNotices() {
  if (!button || !("Notification" in window)) return;
  button.hidden = Notification.permission !== "default";
  button.onclick = async () => {
    await Notification.requestPermission();
    button.hidden = Notification.permission !== "default";
  };
}

// The notification shows no content of the card, since others may see the screen.
function notify(card) {
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  const notice = new Notification(t("Something waits for your decision"), { body: card.classList[1] + " risk", tag: card.id });
  notice.onclick = () => { window.focus(); notice.close(); };
}

// ---- start ----

setClock(list.dataset.now);
localise();
document.addEventListener("submit", decide);
document.addEventListener("click", expand);
document.querySelector(".filters")?.addEventListener("change", (event) => event.target.form.requestSubmit());
if (isList) {
  const dialog = document.getElementById("keys");
  const help = () => { dialog.showModal(); };
  document.getElementById("tools").hidden = false;
  document.getElementById("help").onclick = help;
  fresh.onclick = showNew;
  offerNotices();
  several(send);
  keys({ showNew, help });
} else {
  keys({ showNew: () => false, help: () => false });
}
setInterval(() => tick().forEach((card) => setTimeout(refresh, 500, idOf(card))), 1000);
addEventListener("pageshow", (event) => { if (event.persisted) sync(); });
listen({ opened, lost, happened });
