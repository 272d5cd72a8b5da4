// The CRM: thirteen tools on PostgreSQL.
//
// Input: a tool's name and the exact bytes of its arguments. Output: the outcome that is reported to Countersign.
// Not here: who may call what. That is decided before `run` is called, by the policy and by a person.
import type { Pool } from "pg";

export type Outcome = { outcome: "succeeded" | "failed" | "not_sent" | "unknown"; result: unknown };

export const SCHEMA = `
  CREATE TABLE contact (id serial PRIMARY KEY, name text NOT NULL, email text, company text);
  CREATE TABLE deal (id serial PRIMARY KEY, title text NOT NULL, amount numeric NOT NULL, contact text NOT NULL,
                     stage text NOT NULL DEFAULT 'lead');
  CREATE TABLE task (id serial PRIMARY KEY, title text NOT NULL, due date);
  CREATE TABLE activity (id serial PRIMARY KEY, kind text NOT NULL, contact text NOT NULL, note text NOT NULL);
  -- Every write that ran, with the bytes that it ran with. The key makes a second run of one call impossible.
  CREATE TABLE ran (call text PRIMARY KEY, tool text NOT NULL, arguments bytea NOT NULL);`;

// PostgreSQL reads the arguments itself: `JSON.parse` would round 12345678901234567890.
const READS: Record<string, string> = {
  search_contacts: "SELECT * FROM contact WHERE name ILIKE '%' || ($1::json->>'query') || '%' ORDER BY id",
  get_contact: "SELECT * FROM contact WHERE id = ($1::json->>'id')::int",
  list_contacts: "SELECT * FROM contact ORDER BY id",
  search_deals: "SELECT * FROM deal WHERE title ILIKE '%' || ($1::json->>'query') || '%' ORDER BY id",
  get_deal: "SELECT * FROM deal WHERE id = ($1::json->>'id')::int",
  list_deals: "SELECT * FROM deal ORDER BY id",
  get_pipeline: "SELECT stage, count(*)::int AS deals, sum(amount) AS amount FROM deal GROUP BY stage ORDER BY stage",
  list_tasks: "SELECT * FROM task ORDER BY due, id",
  list_activities: "SELECT * FROM activity ORDER BY id",
};

const WRITES: Record<string, string> = {
  create_contact: `INSERT INTO contact (name, email, company)
    SELECT name, email, company FROM json_to_record($1::json) AS given (name text, email text, company text) RETURNING *`,
  create_deal: `INSERT INTO deal (title, amount, contact)
    SELECT title, amount, contact FROM json_to_record($1::json) AS given (title text, amount numeric, contact text) RETURNING *`,
  create_task: `INSERT INTO task (title, due)
    SELECT title, due FROM json_to_record($1::json) AS given (title text, due date) RETURNING *`,
  log_activity: `INSERT INTO activity (kind, contact, note)
    SELECT kind, contact, note FROM json_to_record($1::json) AS given (kind text, contact text, note text) RETURNING *`,
};

export const TOOLS = [...Object.keys(READS), ...Object.keys(WRITES)];

export class Crm {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Runs a read at once. */
  async read(tool: string, given: Buffer): Promise<unknown> {
    const found = READS[tool];
    if (!found) throw new Error(`\`${tool}\` is not a read`);
    return (await this.#pool.query(found, parameters(found, given))).rows;
  }

  /** Runs a write in one transaction, together with the record of its call. */
  async write(call: string, tool: string, given: Buffer): Promise<Outcome> {
    const found = WRITES[tool];
    if (!found) return { outcome: "failed", result: `there is no tool \`${tool}\`` };
    const client = await this.#pool.connect().catch(() => undefined);
    if (!client) return { outcome: "not_sent", result: "the database cannot be reached" };
    let isCommitting = false;
    try {
      await client.query("BEGIN");
      await client.query("INSERT INTO ran (call, tool, arguments) VALUES ($1, $2, $3)", [call, tool, given]);
      const { rows } = await client.query(found, parameters(found, given));
      isCommitting = true;
      await client.query("COMMIT");
      return { outcome: "succeeded", result: rows[0] };
    } catch (error) {
      // A COMMIT that failed may have taken effect, so only a person can say how the call ended.
      if (!isCommitting) await client.query("ROLLBACK").catch(() => {});
      return { outcome: isCommitting ? "unknown" : "failed", result: String(error) };
    } finally {
      client.release();
    }
  }
}

function parameters(query: string, given: Buffer): string[] {
  return query.includes("$1") ? [given.toString("utf8")] : [];
}
