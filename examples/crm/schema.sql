-- Ids are never given twice, so that a card about contact 9 cannot come to mean somebody else.
CREATE TABLE contact (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    email TEXT UNIQUE,
    company TEXT,
    phone TEXT,
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE deal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    contact_id INTEGER NOT NULL REFERENCES contact (id),
    title TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    currency TEXT NOT NULL,
    stage TEXT NOT NULL CHECK (stage IN ('lead', 'qualified', 'proposal', 'won', 'lost')),
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    contact_id INTEGER REFERENCES contact (id),
    title TEXT NOT NULL,
    due TEXT,
    done INTEGER NOT NULL CHECK (done IN (0, 1)),
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE activity (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    contact_id INTEGER NOT NULL REFERENCES contact (id),
    kind TEXT NOT NULL CHECK (kind IN ('call', 'email', 'meeting', 'note')),
    note TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
