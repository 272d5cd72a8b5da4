CREATE TABLE page (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('draft', 'published'))
) STRICT;
CREATE TABLE section (
    id TEXT PRIMARY KEY,
    page_id TEXT NOT NULL REFERENCES page (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    heading TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
-- A link may outlive its page, where somebody asks for that.
CREATE TABLE navigation (
    slug TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    position INTEGER NOT NULL
) STRICT;
CREATE TABLE post (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('draft', 'published', 'archived')),
    published_at TEXT,
    CHECK ((status = 'draft') = (published_at IS NULL))
) STRICT;
-- Where an image lies is nobody's business: `path` never leaves this file.
CREATE TABLE image (
    id TEXT PRIMARY KEY,
    filename TEXT NOT NULL UNIQUE,
    alt TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE image_bin (
    id TEXT PRIMARY KEY,
    filename TEXT NOT NULL UNIQUE,
    alt TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
