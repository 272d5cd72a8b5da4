-- One row per approval. `seq` is short and grows, so that calls and events can point at it cheaply.
CREATE TABLE approval (
    seq     INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    id      BLOB    NOT NULL CHECK (length(id) = 16),
    channel TEXT,
    agent   TEXT    NOT NULL,
    run     TEXT,
    state   INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    version INTEGER NOT NULL CHECK (version > 0),
    -- When the sweep has something to do; of a pending approval, when it expires.
    due_at  INTEGER CHECK (state <> 0 OR due_at IS NOT NULL),
    key     TEXT,
    body    BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX approval_id ON approval (tenant, id);
-- These cover open rows only: what is over costs nothing in lists, sweeps and decisions.
CREATE INDEX approval_pending ON approval (tenant, id) WHERE state = 0;
CREATE UNIQUE INDEX approval_channel ON approval (tenant, channel) WHERE state = 0 AND channel IS NOT NULL;
CREATE INDEX approval_due ON approval (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX approval_key ON approval (tenant, agent, key) WHERE key IS NOT NULL;
CREATE INDEX approval_run ON approval (tenant, run, id) WHERE run IS NOT NULL;

-- One row per call; its id is its approval's seq * 128 + its position, so it needs no index.
CREATE TABLE call (
    id        INTEGER PRIMARY KEY,
    state     INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),
    tool      TEXT    NOT NULL,
    arguments BLOB    NOT NULL,
    original  BLOB,
    result    BLOB,
    sealed    BLOB,
    body      BLOB    NOT NULL
) STRICT;

-- Policies by hash, so that an event names one in a byte or two.
CREATE TABLE policy (
    id   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32)
) STRICT;

-- What happened, in the order of the commits: there is one writer at a time.
CREATE TABLE event (
    seq      INTEGER PRIMARY KEY,
    approval INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    policy   INTEGER NOT NULL,
    by       TEXT    NOT NULL,
    what     TEXT    NOT NULL,
    link     BLOB    NOT NULL CHECK (length(link) = 32)
) STRICT;

-- Also says a second time that no number of a history is given twice.
CREATE UNIQUE INDEX event_approval ON event (approval, number);
