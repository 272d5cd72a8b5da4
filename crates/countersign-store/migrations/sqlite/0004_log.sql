-- Binds an event to the approval's rows as it left them. Events from before this step have none.
ALTER TABLE event ADD COLUMN content BLOB CHECK (content IS NULL OR length(content) = 16);

-- The head of the log of all events, which stand in the order of `seq`, from 1 and without gaps: how many there are, the last
-- one's `seq`, and the hashes that give the root. The events that are there are counted by the program, in this same step.
CREATE TABLE log (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    size     INTEGER NOT NULL CHECK (size >= 0),
    last     INTEGER NOT NULL,
    frontier BLOB    NOT NULL
) STRICT;
INSERT INTO log (id, size, last, frontier) VALUES (1, 0, 0, x'');
