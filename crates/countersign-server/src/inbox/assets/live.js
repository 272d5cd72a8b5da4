// What happens, as it happens. Of all open tabs one listens and tells the others, because a browser opens only a few
// connections to one place.

const KINDS = ["proposed", "approved", "denied", "expired", "superseded", "withdrawn", "passed", "decision_refused", "started",
  "succeeded", "failed", "lost", "refused", "reconciled", "undo_started", "undo_failed", "undone"];
// A connection that comes back sooner was never lost, as far as a person is concerned.
const PATIENCE = 4000;
const RETRY = 1000;

// handlers: happened(kind, data), opened(), lost().
export function listen(handlers) {
  const others = new BroadcastChannel("countersign");
  let last = "";
  let losing = 0;
  const told = { happened: ([kind, data]) => handlers.happened(kind, data), opened: handlers.opened, lost: handlers.lost };
  others.onmessage = ({ data: [what, detail] }) => told[what](detail);
  const tell = (what, detail) => {
    others.postMessage([what, detail]);
    told[what](detail);
  };

  function lose() {
    losing ||= setTimeout(() => tell("lost"), PATIENCE);
  }

  function connect() {
    const source = new EventSource("/approvals/live");
    source.onopen = () => {
      clearTimeout(losing);
      losing = 0;
      tell("opened");
    };
    source.onerror = () => {
      lose();
      // The browser comes back by itself, unless it was turned away.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY + Math.random() * RETRY);
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId === last) return;
        last = event.lastEventId;
        tell("happened", [kind, JSON.parse(event.data)]);
      });
    }
    // The service lets us go and says so: come back at once.
    for (const kind of ["lagged", "stopping", "unavailable"]) {
      source.addEventListener(kind, () => {
        source.close();
        lose();
        setTimeout(connect, RETRY);
      });
    }
  }

  // Whoever has the lock listens; when that tab goes, the next one does. What happened in between is read again.
  navigator.locks.request("countersign-live", () => new Promise(connect));
  handlers.opened();
}
