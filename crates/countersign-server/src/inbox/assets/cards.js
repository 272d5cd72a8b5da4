// Cards in the DOM: parsing them from HTML, sorting them in, and replacing them in place.
// Updates never disturb a person who is reading or typing: visible cards do not move, and typed text is kept.

import { t } from "./words.js";

const parser = new DOMParser();

export const parse = (html) => name(parser.parseFromString(html, "text/html"));
// Sets the ids of pending cards in a list. Their HTML omits the id, which the link already has, to keep the page small.
function name(page) {
  for (const card of page.querySelectorAll(".card:not([id])")) card.id = "a" + card.querySelector("h2 a").pathname.split("/")[2];
  return page;
}
name(document);
export const cards = () => [...document.querySelectorAll("#cards > .card")];
export const find = (id) => document.getElementById("a" + id);
export const idOf = (card) => card.id.slice(1);
export const isPending = (card) => !card.classList.contains("over");
export const isGrave = (card) => card.classList.contains("grave");
// Element of a card that takes the focus: its title.
export const handle = (card) => card.querySelector("h2 a") || card;

export function say(text) {
  const place = document.getElementById("say");
  if (place) place.textContent = text;
}

// Offset of the server's clock, since the browser's may be wrong.
let ahead = 0;
export function setClock(moment) {
  const now = Date.parse(moment);
  if (now) ahead = now - Date.now();
}
export const now = () => Date.now() + ahead;

// Replaces a card with a newer version. Typed text is kept while the card is pending; if somebody else decided
// meanwhile, an unsent comment is shown as a note.
export function patch(old, fresh, isSent = false) {
  if (old.dataset.v === fresh.dataset.v && !fresh.querySelector(".problem")) return old;
  const had = old.contains(document.activeElement);
  if (isPending(old) && isPending(fresh)) keepWhatIsTyped(old, fresh);
  else if (isPending(old) && !isSent) keepComment(old, fresh);
  // A shorter card keeps the old height, so that nothing below it moves.
  const height = old.offsetHeight;
  old.replaceWith(fresh);
  if (fresh.offsetHeight < height) fresh.style.minHeight = height + "px";
  if (had) (fresh.querySelector("[data-focus]") || handle(fresh)).focus({ preventScroll: true });
  return fresh;
}

function keepComment(old, fresh) {
  const comment = old.querySelector("[name=comment]")?.value.trim();
  if (!comment) return;
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = t("Your comment was not sent: {text}", { text: comment });
  fresh.append(note);
}

// Shows an error on a card.
export function complain(card, text) {
  card.querySelector(".problem")?.remove();
  const problem = document.createElement("div");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.textContent = text;
  card.querySelector("header").after(problem);
}

function keepWhatIsTyped(old, fresh) {
  for (const field of old.querySelectorAll("textarea[name], select[name], input[inputmode][name], input[type=radio]:checked, .pick:checked")) {
    const value = field.type === "radio" ? `[value="${field.value}"]` : "";
    const same = fresh.querySelector(`[name="${field.name}"]${value}`);
    if (!same) continue;
    if (field.type === "radio" || field.type === "checkbox") same.checked = true;
    else same.value = field.value;
    if (field === document.activeElement) same.dataset.focus = "";
  }
  const opened = [...old.querySelectorAll("details")].map((part) => part.open);
  fresh.querySelectorAll("details").forEach((part, at) => { part.open = opened[at] ?? part.open; });
}

// Compares cards as the server does: highest risk first, then earliest expiry.
function comesAfter(card, other) {
  const place = (each) => ["critical", "high", "medium", "low"].findIndex((risk) => each.classList.contains(risk));
  const end = (each) => Date.parse(each.querySelector(".left").dateTime);
  return place(card) - place(other) || end(card) - end(other);
}

// Returns the card before which a new one is inserted.
export const successor = (fresh) => cards().find((card) => isPending(card) && comesAfter(card, fresh) > 0) || null;

export function insert(fresh) {
  document.querySelector("#cards > .empty")?.remove();
  const next = successor(fresh);
  if (next) next.before(fresh);
  else {
    const last = cards().at(-1);
    if (last) last.after(fresh);
    else document.getElementById("count").after(fresh);
  }
  fresh.classList.add("arrived");
  return fresh;
}

// Returns true if inserting the card would move nothing visible.
export function fitsQuietly(fresh) {
  const next = successor(fresh);
  return document.hidden || !next || next.getBoundingClientRect().top > innerHeight;
}

export function recount() {
  const waiting = cards().filter(isPending).length;
  const count = document.getElementById("count");
  if (!count || document.getElementById("cards").dataset.total > 100) return;
  count.textContent = waiting === 0 ? t("Nothing waits for you.") : waiting === 1 ? t("1 waits") : t("{n} wait", { n: waiting });
  document.title = (waiting ? `(${waiting}) ` : "") + t("Inbox") + " · Countersign";
}

function words(seconds) {
  const [m, h, d] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (d) return `${d}d ${h % 24}h`;
  if (h) return `${h}h ${m % 60}m`;
  return m ? `${m}m ${seconds % 60}s` : `${seconds}s`;
}

// Updates the remaining times; called once a second. Returns the cards that have just expired.
export function tick() {
  const over = [];
  for (const time of document.querySelectorAll(".left")) {
    const left = Math.floor((Date.parse(time.dateTime) - now()) / 1000);
    const text = left < 0 ? t("time is up") : t("{time} left", { time: words(left) });
    if (time.textContent !== text) time.textContent = text;
    time.classList.toggle("urgent", left < 60);
    if (left < 0 && !time.dataset.over) {
      time.dataset.over = "1";
      const card = time.closest(".card");
      card.querySelectorAll(".decide button").forEach((button) => { button.disabled = true; });
      over.push(card);
    }
  }
  return over;
}
