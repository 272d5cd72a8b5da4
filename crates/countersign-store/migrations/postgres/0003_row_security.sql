-- A second wall between tenants: a connection sees the rows of the tenants it named last, one in each line of the setting
-- `countersign.tenants`, and none when it named none. A line break alone stands for all of them; no name holds one.
-- Entries are not behind it: whose a token is, is known only after it was found.

ALTER TABLE approval ENABLE ROW LEVEL SECURITY;
ALTER TABLE approval FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON approval USING (
    tenant = ANY ((SELECT string_to_array(current_setting('countersign.tenants', true), E'\n'))::text[])
    OR (SELECT current_setting('countersign.tenants', true)) = E'\n'
);

ALTER TABLE call ENABLE ROW LEVEL SECURITY;
ALTER TABLE call FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON call USING (
    tenant = ANY ((SELECT string_to_array(current_setting('countersign.tenants', true), E'\n'))::text[])
    OR (SELECT current_setting('countersign.tenants', true)) = E'\n'
);

ALTER TABLE event ENABLE ROW LEVEL SECURITY;
ALTER TABLE event FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON event USING (
    tenant = ANY ((SELECT string_to_array(current_setting('countersign.tenants', true), E'\n'))::text[])
    OR (SELECT current_setting('countersign.tenants', true)) = E'\n'
);
