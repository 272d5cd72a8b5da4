-- The registry: looked up by kind and key at every request, so the row stands in that tree itself.
CREATE TABLE entry (
    kind       INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    expires_at INTEGER,
    body       BLOB    NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX entry_tenant ON entry (tenant, kind, key);
CREATE INDEX entry_expiry ON entry (expires_at) WHERE expires_at IS NOT NULL;
