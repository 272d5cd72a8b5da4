// Keyboard shortcuts: single letters, ignored while typing. Approving a grave card takes two presses.

import { cards, handle, isGrave, isPending, say } from "./cards.js";
import { t } from "./words.js";

const ARMED_FOR = 4000;
let armed = null;

export function disarm() {
  armed?.classList.remove("armed");
  armed = null;
}

const isTyping = (target) => target.closest("textarea, input:not(.pick), select, dialog[open]");
const current = () => document.activeElement?.closest?.(".card");

function move(by) {
  const all = cards();
  const at = all.indexOf(current());
  const next = all[at === -1 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  if (next) handle(next).focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

function approve(card) {
  const button = card.querySelector(".decide .yes");
  if (!button || button.disabled) {
    if (isPending(card)) say(t("Not everything is shown. Press s to show all of it."));
    return;
  }
  if (isGrave(card) && armed !== button) {
    disarm();
    armed = button;
    button.classList.add("armed");
    say(t("Press a again to approve: {text}", { text: card.querySelector("h2").textContent }));
    setTimeout(() => { if (armed === button) disarm(); }, ARMED_FOR);
    return;
  }
  disarm();
  button.click();
}

// actions: showNew(), help().
export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches("textarea")) return handle(event.target.closest(".card"))?.focus();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const card = current() || (cards().length === 1 ? cards()[0] : null);
    // Ignore key repeat, except for moving.
    if (event.repeat && !"jk".includes(event.key)) return;
    const go = (link) => link && link.click();
    const acts = {
      j: () => move(1),
      k: () => move(-1),
      n: actions.showNew,
      "?": actions.help,
      o: () => go(card?.querySelector("h2 a")),
      a: () => card && approve(card),
      d: () => card?.querySelector(".decide .no")?.click(),
      e: () => go(card?.querySelector(".decide .edit")),
      s: () => go(card?.querySelector(".decide .all")),
      x: () => card?.querySelector(".pick")?.click(),
      c: () => card?.querySelector(".decide textarea[name=comment]")?.focus(),
    };
    const act = Object.hasOwn(acts, event.key) && acts[event.key];
    if (!act) return;
    if (event.key !== "a") disarm();
    if (act() !== false) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    if (armed && !armed.closest(".card").contains(event.target)) disarm();
  });
}
