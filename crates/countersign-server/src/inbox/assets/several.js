// Selecting several cards of one tool. Each is sent by its own form, so each is decided on its own digest, and a refusal
// stands on its own card.

import { say } from "./cards.js";
import { t } from "./words.js";

const form = document.getElementById("several");
const boxes = () => [...document.querySelectorAll("#cards .pick:not(:disabled)")];
const chosen = () => boxes().filter((box) => box.checked);

function count() {
  const number = chosen().length;
  document.getElementById("selected").textContent = t("{n} selected", { n: number });
  form.querySelectorAll("[name=verdict]").forEach((button) => { button.disabled = number === 0; });
}

// Sends the forms one after another; `send` sends one and returns true if its card was decided.
async function decide(verdict, comment, send) {
  let [decided, refused] = [0, 0];
  for (const box of chosen()) {
    const own = box.closest(".card").querySelector(".decide");
    const button = own?.querySelector(`[name=verdict][value=${verdict}]`);
    if (!button) {
      refused += 1;
      continue;
    }
    const body = new URLSearchParams(new FormData(own, button));
    if (comment) body.set("comment", comment);
    if (await send(own, body)) decided += 1;
    else refused += 1;
  }
  count();
  // The comment was about these cards.
  if (!refused) form.elements.comment.value = "";
  const text = t("{n} decided", { n: decided }) + (refused ? t(", {n} not decided", { n: refused }) : "");
  document.getElementById("selected").textContent = text;
  say(text);
}

export function several(send) {
  if (!form) return;
  const all = document.getElementById("select-all");
  all.hidden = false;
  all.onclick = () => {
    const some = boxes().some((box) => !box.checked);
    boxes().forEach((box) => { box.checked = some; });
    count();
  };
  document.addEventListener("change", (event) => { if (event.target.matches(".pick")) count(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const comment = form.elements.comment.value.trim();
    decide(event.submitter?.value, comment, send);
  });
  count();
}
