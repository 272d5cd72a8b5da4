-- Approvals, their calls and their events. Texts are compared byte by byte, so that no locale of a server changes an
-- order; ids and bodies are bytes; moments are microseconds since 1970 on the store's clock.

CREATE TABLE approval (
    tenant     text COLLATE "C" NOT NULL,
    id         bytea    NOT NULL CHECK (octet_length(id) = 16),
    channel    text COLLATE "C",
    agent      text COLLATE "C" NOT NULL,
    run        text COLLATE "C",
    state      smallint NOT NULL CHECK (state BETWEEN 0 AND 5),
    version    integer  NOT NULL CHECK (version > 0),
    due_at     bigint,
    expires_at bigint   NOT NULL,
    key        text COLLATE "C",
    undoes     bytea,
    body       bytea    NOT NULL,
    PRIMARY KEY (tenant, id),
    -- What is pending can expire, so the sweep has to see it.
    CHECK (state <> 0 OR due_at IS NOT NULL)
);

-- Who waits knows only the id: it must name one approval among all tenants.
CREATE UNIQUE INDEX approval_id ON approval (id);
-- These hold open rows only, so that their cost does not grow with history.
CREATE INDEX approval_pending ON approval (tenant, id) WHERE state = 0;
CREATE UNIQUE INDEX approval_channel ON approval (tenant, channel) WHERE state = 0 AND channel IS NOT NULL;
CREATE INDEX approval_due ON approval (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX approval_key ON approval (tenant, agent, key) WHERE key IS NOT NULL;
CREATE INDEX approval_run ON approval (tenant, run, id) WHERE run IS NOT NULL;

CREATE TABLE call (
    tenant    text COLLATE "C" NOT NULL,
    approval  bytea    NOT NULL,
    position  smallint NOT NULL CHECK (position BETWEEN 1 AND 100),
    state     smallint NOT NULL CHECK (state BETWEEN 0 AND 7),
    tool      text COLLATE "C" NOT NULL,
    -- Bytes, never jsonb: what was approved is what runs, to the letter.
    arguments bytea    NOT NULL,
    original  bytea,
    result    bytea,
    sealed    bytea,
    body      bytea    NOT NULL,
    PRIMARY KEY (tenant, approval, position)
)
-- A call is written two or three times; with room beside it that touches no index.
WITH (fillfactor = 60);

CREATE TABLE event (
    -- The transaction, and the place within it: the order of the feed. See `feed` in `read.rs`.
    xact     xid8     NOT NULL DEFAULT pg_current_xact_id(),
    seq      integer  NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    approval bytea    NOT NULL,
    number   integer  NOT NULL CHECK (number > 0),
    at       bigint   NOT NULL,
    policy   bytea    NOT NULL CHECK (octet_length(policy) = 32),
    by       text COLLATE "C" NOT NULL,
    -- Text, not jsonb: the link is over these exact letters.
    what     text COLLATE "C" NOT NULL,
    link     bytea    NOT NULL CHECK (octet_length(link) = 32),
    PRIMARY KEY (tenant, approval, number)
);

CREATE UNIQUE INDEX event_feed ON event (tenant, xact, seq);

-- Rows on their way in: a group of commands sends each kind as one array.
CREATE TYPE changed_approval AS (
    tenant text, id bytea, version_before integer, state smallint, version integer, due_at bigint, body bytea
);
-- Arguments stand here only when they were edited, results only when the call ended.
CREATE TYPE changed_call AS (
    tenant text, approval bytea, position smallint, state smallint, body bytea, arguments bytea, original bytea,
    ended boolean, result bytea, sealed bytea
);
CREATE TYPE new_event AS (
    seq integer, tenant text, approval bytea, number integer, at bigint, policy bytea, by text, what text, link bytea
);
