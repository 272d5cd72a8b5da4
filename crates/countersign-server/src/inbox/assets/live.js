// Event stream. One of all open tabs holds the connection and forwards events to the others, because browsers limit the
// number of connections per host.

const KINDS = ["proposed", "endorsed", "approved", "denied", "expired", "superseded", "withdrawn", "passed", "decision_refused", "started",
  "succeeded", "failed", "lost", "refused", "reconciled", "late_result", "undo_started", "undo_failed", "undone", "erased"];
// Milliseconds before a lost connection is reported. Shorter interruptions are not shown.
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
      // The browser reconnects by itself, unless the server rejected the request.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY + Math.random() * RETRY);
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId === last) return;
        last = event.lastEventId;
        tell("happened", [kind, JSON.parse(event.data)]);
      });
    }
    // The server has announced that it closes the stream: reconnect.
    for (const kind of ["lagged", "stopping", "unavailable"]) {
      source.addEventListener(kind, () => {
        source.close();
        lose();
        setTimeout(connect, RETRY);
      });
    }
  }

  // The tab that holds the lock connects; when it closes, the next one takes over. `opened` then reloads what was
  // missed.
  navigator.locks.request("countersign-live", () => new Promise(connect));
  handlers.opened();
}
