-- The registry: looked up by kind and key at every request, listed by tenant, swept by time.
CREATE TABLE entry (
    kind       smallint NOT NULL,
    key        text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    version    integer  NOT NULL CHECK (version > 0),
    expires_at bigint,
    body       bytea    NOT NULL,
    PRIMARY KEY (kind, key)
);

CREATE INDEX entry_tenant ON entry (tenant, kind, key);
CREATE INDEX entry_expiry ON entry (expires_at) WHERE expires_at IS NOT NULL;
