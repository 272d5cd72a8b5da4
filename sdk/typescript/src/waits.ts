// Waiting for many approvals at once.
//
// A few waits are long polls of their own. With more, each would take a connection, so they share one event stream: an
// approval is read again when one of its events arrives. If the server refuses the stream, all waits are long polls.

import { pause } from "./http.ts";
import type { Approval } from "./types.ts";

/** Number of concurrent long polls, after which further waits share the stream. */
const MOST_POLLS = 16;
/** Number of approvals that the waits on the stream read at a time. */
const MOST_READS = 16;

export interface WaitSource {
  /** Reads an approval; with `waitMs`, as soon as it is as wanted, or after that time. */
  read(id: string, waitMs: number, signal?: AbortSignal): Promise<Approval>;
  /** Yields the id of an approval for each of its events, and `undefined` whenever the stream has been opened. */
  follow(signal: AbortSignal): AsyncIterable<string | undefined>;
}

export interface Wait {
  id: string;
  isDone: (approval: Approval) => boolean;
  /** Time of `performance.now`, after which the approval is returned as it is. */
  deadline: number;
  signal?: AbortSignal | undefined;
}

interface Feed {
  isOver: boolean;
  stop: AbortController;
}

export class Waits {
  readonly #source: WaitSource;
  readonly #longestPollMs: number;
  #polls = 0;
  #feed: Feed | undefined;
  /** Wakes the waits for each approval. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #reads = 0;
  readonly #readers: (() => void)[] = [];

  constructor(source: WaitSource, longestPollMs: number) {
    this.#source = source;
    this.#longestPollMs = longestPollMs;
  }

  async wait(wait: Wait): Promise<Approval> {
    const followed = this.#polls < MOST_POLLS ? undefined : await this.#follow(wait);
    return followed ?? this.#poll(wait);
  }

  async #poll({ id, isDone, deadline, signal }: Wait): Promise<Approval> {
    this.#polls += 1;
    try {
      for (;;) {
        const since = performance.now();
        const waitMs = Math.max(0, Math.min(deadline - since, this.#longestPollMs));
        const approval = await this.#source.read(id, waitMs, signal);
        if (isDone(approval) || performance.now() >= deadline) return approval;
        // A server that stops answers early; do not ask it again at once.
        if (performance.now() - since < waitMs / 2) await pause(Math.min(200, deadline - performance.now()), signal);
      }
    } finally {
      this.#polls -= 1;
    }
  }

  /** Waits with the shared stream. Resolves to `undefined` if the stream ends. */
  async #follow({ id, isDone, deadline, signal }: Wait): Promise<Approval | undefined> {
    const wakers = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, wakers);
    let wake: (() => void) | undefined;
    const waker = (): void => wake?.();
    wakers.add(waker);
    const feed = (this.#feed ??= this.#open());
    try {
      while (!feed.isOver) {
        // Listens before it reads, so that no event in between is missed.
        const changed = new Promise<void>((resolve) => (wake = resolve));
        const approval = await this.#read(id, signal);
        if (isDone(approval) || performance.now() >= deadline) return approval;
        await changedOrOver(changed, deadline, signal);
      }
      return undefined;
    } finally {
      wakers.delete(waker);
      if (wakers.size === 0) this.#waiting.delete(id);
      if (this.#waiting.size === 0) {
        this.#feed?.stop.abort();
        this.#feed = undefined;
      }
    }
  }

  #open(): Feed {
    const feed: Feed = { isOver: false, stop: new AbortController() };
    const wake = (id: string | undefined): void => {
      const woken = id === undefined ? this.#waiting.values() : [this.#waiting.get(id) ?? new Set<() => void>()];
      for (const wakers of woken) for (const waker of wakers) waker();
    };
    const follow = async (): Promise<void> => {
      for await (const id of this.#source.follow(feed.stop.signal)) wake(id);
    };
    void follow()
      .catch(() => undefined)
      .then(() => {
        feed.isOver = true;
        if (this.#feed === feed) this.#feed = undefined;
        wake(undefined);
      });
    return feed;
  }

  async #read(id: string, signal: AbortSignal | undefined): Promise<Approval> {
    while (this.#reads >= MOST_READS) await new Promise<void>((resolve) => this.#readers.push(resolve));
    this.#reads += 1;
    try {
      return await this.#source.read(id, 0, signal);
    } finally {
      this.#reads -= 1;
      this.#readers.shift()?.();
    }
  }
}

/** Waits for a change, until the deadline; rejects if the signal is aborted. */
async function changedOrOver(changed: Promise<void>, deadline: number, signal: AbortSignal | undefined): Promise<void> {
  const done = new AbortController();
  const onAbort = (): void => done.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const over = pause(deadline - performance.now(), done.signal);
  over.catch(() => undefined);
  try {
    await Promise.race([changed, over]);
  } finally {
    signal?.removeEventListener("abort", onAbort);
    done.abort();
  }
}
