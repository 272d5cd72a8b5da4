-- Binds an event to the approval's rows as it left them. Events from before this step have none.
ALTER TABLE event ADD COLUMN content bytea;
ALTER TABLE event ADD CONSTRAINT event_content_check CHECK (content IS NULL OR octet_length(content) = 16) NOT VALID;
ALTER TYPE new_event ADD ATTRIBUTE content bytea;

-- The head of the log of all events, which stand in the order of their transactions and of their places in them: how many there
-- are, where the last one stands, and the hashes that give the root. The sweep moves it on, behind the commits.
CREATE TABLE log (
    id       smallint PRIMARY KEY CHECK (id = 1),
    size     bigint   NOT NULL CHECK (size >= 0),
    xact     xid8     NOT NULL,
    seq      integer  NOT NULL,
    frontier bytea    NOT NULL
);
INSERT INTO log (id, size, xact, seq, frontier) VALUES (1, 0, '0', 0, '');

-- Whoever may add events may move the head on.
DO $$
DECLARE
    writer text;
BEGIN
    FOR writer IN SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = 'countersign' AND table_name = 'event' AND privilege_type = 'INSERT'
            AND grantee NOT IN ('PUBLIC', current_user)
    LOOP
        EXECUTE format('GRANT SELECT, UPDATE ON log TO %I', writer);
    END LOOP;
END $$;
