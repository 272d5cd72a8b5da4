//! Tampering: after direct changes to the store nothing runs, and `verify` reports what was changed.

use std::path::PathBuf;
use std::process::Command;

use rusqlite::Connection;
use serde_json::Value;

use crate::served::Served;
use crate::test_folder::{Left, MARIA, TestFolder, database};

/// Fills a store with approvals of all kinds: done, failed, denied, replaced, erased and pending, with channels, runs
/// and keys.
fn busy(place: &TestFolder) -> Vec<String> {
    let done = place.contact();
    place.good(&["approve", &done, "--comment", "go ahead"]);
    place.good(&["wait", &done, "--exec", "cat"]);
    let failed = place.contact();
    place.good(&["approve", &failed]);
    place.run(&["wait", &failed, "--exec", "false"]);
    let denied = place.contact();
    place.good(&["deny", &denied]);
    let of_run = [
        "create_contact",
        MARIA,
        "--agent",
        "crm",
        "--channel",
        "c",
        "--run",
        "r",
    ];
    let replaced = place.propose(&of_run);
    let pending = place.propose(&of_run);
    vec![done, failed, denied, replaced, pending]
}

fn file(place: &TestFolder) -> PathBuf {
    place.path().join("countersign.db")
}

/// Opens a connection that ignores the schema's checks.
fn raw(place: &TestFolder) -> Connection {
    let connection = Connection::open(file(place)).unwrap();
    connection
        .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
        .unwrap();
    connection
}

#[track_caller]
fn found(left: &Left) -> Vec<Value> {
    assert_eq!(left.code, 1, "{left:?}");
    let report: Value = serde_json::from_str(&left.stdout).unwrap();
    assert_eq!(report["ok"], false);
    report["faults"].as_array().unwrap().clone()
}

/// Replaces bytes in a blob of the only row that contains them.
fn replace_bytes(connection: &Connection, table: &str, column: &str, from: &[u8], to: &[u8]) -> usize {
    let rows: Vec<(i64, Vec<u8>)> = connection
        .prepare(&format!("SELECT rowid, {column} FROM {table}"))
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut changed = 0;
    for (row, mut bytes) in rows {
        let place = bytes.windows(from.len()).rposition(|found| found == from);
        if let Some(at) = place {
            bytes[at..at + to.len()].copy_from_slice(to);
            let sql = format!("UPDATE {table} SET {column} = ?2 WHERE rowid = ?1");
            changed += connection.execute(&sql, (row, bytes)).unwrap();
        }
    }
    changed
}

const RELEASE: &str = "UPDATE approval SET state = 1, due_at = NULL; UPDATE call SET state = 2";

/// X63: however the rows of an approval are changed by hand, none of its calls runs.
#[test]
fn x63_what_was_released_or_changed_by_hand_runs_nothing() {
    type Forge = fn(&Connection) -> usize;
    let forgeries: [(&str, bool, Forge); 8] = [
        ("released by hand", false, |file| {
            file.execute_batch(RELEASE).unwrap();
            1
        }),
        ("another approver", true, |file| {
            replace_bytes(file, "approval", "body", b"\x03ana", b"\x03eve")
        }),
        ("another comment", true, |file| {
            replace_bytes(file, "approval", "body", b"go ahead", b"go there")
        }),
        ("another summary", true, |file| {
            replace_bytes(file, "call", "body", b"Create", b"Delete")
        }),
        ("other arguments", true, |file| {
            replace_bytes(file, "call", "arguments", b"Maria", b"Mario")
        }),
        ("an event less", true, |file| {
            let sql = "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)";
            file.execute(sql, []).unwrap()
        }),
        ("another event", true, |file| {
            file.execute("UPDATE event SET what = replace(what, '}', ' }')", [])
                .unwrap()
        }),
        ("another actor", true, |file| {
            file.execute("UPDATE event SET by = replace(by, 'ana', 'eve')", [])
                .unwrap()
        }),
    ];
    for (what, is_approved, forge) in forgeries {
        let place = TestFolder::new();
        place.script("tool", "touch ran; cat");
        let id = place.contact();
        if is_approved {
            place.good(&["approve", &id, "--comment", "go ahead"]);
        }
        assert!(forge(&raw(&place)) > 0, "{what}: nothing was changed");
        let left = place.run(&["wait", &id, "--exec", "./tool"]);
        assert_ne!(left.code, 0, "{what}: {left:?}");
        assert!(!place.path().join("ran").exists(), "{what}: it ran");
        assert!(left.stderr.contains("countersign verify"), "{what}: {left:?}");
        let faults = found(&place.run(&["--json", "verify"]));
        assert!(faults[0]["approval"] == id.as_str(), "{what}: {faults:?}");
        assert!(faults[0]["hint"].is_string());
        let doctor = place.run(&["--json", "doctor"]);
        assert_eq!(doctor.code, 1, "{what}: {doctor:?}");
        assert!(
            doctor.stdout.contains("found a contradiction"),
            "{what}: {doctor:?}"
        );
    }
}

/// X63: the same with a running service that has the approval cached. Nobody can decide on a forged card either.
#[test]
fn x63_a_running_service_runs_nothing_that_was_released_by_hand() {
    let place = TestFolder::new();
    place.write("countersign-serve.toml", "[tools.create_contact]\necho = true\n");
    let served = Served::start(&place);
    let (agent, ana) = (served.agent(), served.person());
    let id = served.propose(&agent, &["create_contact", MARIA]);
    raw(&place).execute_batch(RELEASE).unwrap();
    let waited = served.run(&agent, &["--json", "wait", &id, "--finished", "--timeout", "3s"]);
    assert_ne!(waited.code, 0, "{waited:?}");
    let shown = served.run(&ana, &["--json", "show", &id]);
    assert!(!shown.stdout.contains("succeeded"), "{shown:?}");
    let other = served.propose(&agent, &["create_contact", MARIA]);
    let changed = replace_bytes(&raw(&place), "call", "body", b"Create", b"Delete");
    assert!(changed > 0);
    let decided = served.run(&ana, &["approve", &other]);
    assert_ne!(decided.code, 0, "{decided:?}");
}

/// Columns in which `verify` cannot detect a change, with the reason.
const NO_HISTORY: [(&str, &str); 5] = [
    // Tokens, people and sessions change without events. Only an unknown kind is detected.
    ("entry", "key"),
    ("entry", "tenant"),
    ("entry", "version"),
    ("entry", "expires_at"),
    ("entry", "body"),
];

fn names(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// I16: changes one value in every column of every table, and removes a row from every table.
#[test]
fn i16_every_change_of_a_file_is_found() {
    let place = TestFolder::new();
    busy(&place);
    place.good(&["token", "create", "--agent", "a", "--scope", "propose"]);
    let sound = place.json(&["verify"]);
    assert_eq!((&sound["ok"], &sound["approvals"]), (&true.into(), &5.into()));
    let kept = std::fs::read(file(&place)).unwrap();
    let check = |what: &str, sql: &str, is_found: bool| {
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(place.path().join(format!("countersign.db{beside}")));
        }
        std::fs::write(file(&place), &kept).unwrap();
        let connection = raw(&place);
        let changed = connection.execute_batch(&format!("BEGIN; {sql}; COMMIT"));
        changed.unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(connection);
        let left = place.run(&["--json", "verify"]);
        assert_eq!(left.code, i32::from(is_found), "{what}: {left:?}");
    };
    let connection = raw(&place);
    let tables = names(
        &connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    );
    let columns: Vec<(String, String)> = tables
        .iter()
        .flat_map(|table| {
            let sql = format!("SELECT name || ' ' || type FROM pragma_table_info('{table}')");
            let columns = names(&connection, &sql);
            columns.into_iter().map(move |column| (table.clone(), column))
        })
        .collect();
    drop(connection);
    assert_eq!(
        tables,
        ["approval", "call", "entry", "event", "log", "migration", "policy"]
    );
    for (table, column) in columns {
        let (column, kind) = column.split_once(' ').unwrap();
        let name = format!("\"{column}\"");
        let absent = match kind {
            "INTEGER" => "7",
            "TEXT" => "'x'",
            _ => "x'07'",
        };
        let first = format!("FROM {table} ORDER BY {name} IS NULL LIMIT 1");
        let other = format!(
            "CASE typeof({name}) WHEN 'integer' THEN {name} + 1000 WHEN 'text' THEN {name} || 'x'
             WHEN 'blob' THEN CAST(substr({name}, 1, length({name}) - 1) ||
                 CASE hex(substr({name}, -1)) WHEN '00' THEN x'01' ELSE x'00' END AS BLOB) ELSE {absent} END"
        );
        let key = match table.as_str() {
            "entry" => "key",
            _ => "rowid",
        };
        let sql = format!("UPDATE {table} SET {name} = {other} WHERE {key} = (SELECT {key} {first})");
        let is_found = !NO_HISTORY.contains(&(table.as_str(), column));
        check(&format!("{table}.{column}"), &sql, is_found);
    }
    for table in tables.iter().filter(|table| *table != "entry") {
        for end in ["min", "max"] {
            let sql = format!("DELETE FROM {table} WHERE rowid = (SELECT {end}(rowid) FROM {table})");
            check(&format!("a row less in {table}"), &sql, true);
        }
    }
    let swap = "UPDATE event SET seq = 0 WHERE seq = 2; UPDATE event SET seq = 2 WHERE seq = 3;
        UPDATE event SET seq = 3 WHERE seq = 0";
    check("two events in another order", swap, true);
    let twice = "INSERT INTO event SELECT NULL, approval, number + 100, at, policy, by, what, link, content
        FROM event WHERE seq = 1";
    check("an event twice", twice, true);
    let whole = "DELETE FROM event WHERE approval = 1; DELETE FROM call WHERE id BETWEEN 128 AND 255;
        DELETE FROM approval WHERE seq = 1";
    check("a whole approval less", whole, true);
    let last = "DELETE FROM event WHERE approval = (SELECT max(seq) FROM approval);
        DELETE FROM call WHERE id / 128 = (SELECT max(seq) FROM approval);
        DELETE FROM approval WHERE seq = (SELECT max(seq) FROM approval)";
    check("the last approval less", last, true);
    check("an index less", "DROP INDEX approval_pending", true);
    check(
        "a trigger more",
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN UPDATE call SET state = 2; END",
        true,
    );
    check("nothing", "SELECT 1", false);
    // The store can be read in each of these cases, so `verify` reports damage, not a failure to run.
    for (what, sql) in [
        ("no head of the log", "DELETE FROM log"),
        ("a head that is no head", "UPDATE log SET frontier = x'01'"),
        ("a step less", "DELETE FROM migration"),
    ] {
        check(what, sql, true);
        assert_eq!(place.run(&["verify", "--sample", "2"]).code, 1, "{what}");
    }
    check("no head of the log", "DELETE FROM log", true);
    assert_eq!(place.run(&["verify", "--head"]).code, 1);
}

/// Damaged pages that SQLite itself cannot read are reported as damage.
#[test]
fn i16_damaged_pages_are_damage() {
    let place = TestFolder::new();
    for _ in 0..18 {
        place.contact();
    }
    let mut bytes = std::fs::read(file(&place)).unwrap();
    for page in bytes.chunks_mut(4096).skip(8) {
        page.fill(0xa5);
    }
    std::fs::write(file(&place), bytes).unwrap();
    let left = place.run(&["verify"]);
    assert_eq!(left.code, 1, "{left:?}");
    assert!(left.stdout.contains("broken"), "{left:?}");
}

/// I16: if the last events are removed together with the log's head, a head saved elsewhere reveals it.
#[test]
fn i16_a_cut_tail_is_found_by_a_head_kept_elsewhere() {
    let place = TestFolder::new();
    place.contact();
    place.good(&["backup", "early.bak"]);
    let early = place.good(&["verify", "--head"]);
    place.contact();
    let late = place.good(&["verify", "--head"]);
    assert_ne!(early, late);
    for head in [&early, &late] {
        place.good(&["verify", "--since", head.trim()]);
    }
    // A restored old file is consistent in itself.
    for beside in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(place.path().join(format!("countersign.db{beside}")));
    }
    std::fs::copy(place.path().join("early.bak"), file(&place)).unwrap();
    place.good(&["verify"]);
    place.good(&["verify", "--since", early.trim()]);
    let faults = found(&place.run(&["--json", "verify", "--since", late.trim()]));
    assert_eq!(faults[0]["code"], "log_prefix", "{faults:?}");
    let json = place.json(&["verify", "--head"]);
    assert_eq!(
        format!("{}:{}", json["size"], json["root"].as_str().unwrap()),
        early.trim()
    );
}

#[test]
fn i16_what_cannot_be_verified_is_neither_sound_nor_broken() {
    let place = TestFolder::new();
    let code = |arguments: &[&str]| place.run(arguments).code;
    assert_eq!(code(&["verify"]), 2, "there is no store");
    place.contact();
    assert_eq!(code(&["verify", "--since", "x"]), 2);
    assert_eq!(code(&["verify", "--server", "https://localhost:1"]), 2);
    assert_eq!(code(&["verify", "--tenant", "main"]), 0);
    assert_eq!(code(&["verify", "--sample", "10"]), 0);
    let text = place.good(&["verify"]);
    assert!(
        text.starts_with("sound  1 approvals with 1 events; the log is at 1:"),
        "{text}"
    );
    let silent = place.run(&["verify"]);
    assert_eq!(silent.stderr, "", "no bar in a pipe");
    raw(&place)
        .execute("UPDATE approval SET agent = 'x'", [])
        .unwrap();
    let left = place.run(&["verify"]);
    assert_eq!(left.code, 1);
    assert!(
        left.stdout.contains("hint: ") && left.stdout.contains("broken  one fault"),
        "{left:?}"
    );
    std::fs::write(file(&place), "no database").unwrap();
    assert_eq!(code(&["verify"]), 2);
}

/// X63: while a service writes, each audit sees one consistent snapshot.
#[test]
fn x63_a_store_is_sound_while_a_service_writes_to_it() {
    let place = TestFolder::new();
    let served = Served::start(&place);
    let agent = served.agent();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for _ in 0..20 {
                served.propose(&agent, &["create_contact", MARIA]);
            }
        });
        while !writing.is_finished() {
            place.good(&["verify"]);
        }
        writing.join().unwrap();
    });
    assert_eq!(place.json(&["verify"])["approvals"], 20);
}

fn psql(store: &str, sql: &str) -> String {
    let bin = std::env::var("COUNTERSIGN_TEST_PG_BIN").unwrap();
    let left = Command::new(format!("{bin}/psql"))
        .args([store, "-v", "ON_ERROR_STOP=1", "-q", "-A", "-t", "-c", sql])
        .output()
        .unwrap();
    let left = Left::of(left);
    assert_eq!(left.code, 0, "{sql}: {left:?}");
    left.stdout
}

/// PostgreSQL columns in which `verify` cannot detect a change, with the reason.
const NO_TRACE: [(&str, &str); 7] = [
    ("entry", "key"),
    ("entry", "tenant"),
    ("entry", "version"),
    ("entry", "expires_at"),
    ("entry", "body"),
    // For people only; a migration is identified by its checksum.
    ("migration", "name"),
    ("migration", "applied_at"),
];

/// I16 and X63 on PostgreSQL.
#[test]
fn i16_every_change_of_a_database_is_found() {
    let store = database("verify");
    let mut place = TestFolder::new();
    place.keep_in(&store);
    place.script("tool", "touch ran; cat");
    let ids = busy(&place);
    // Sweeps advance the log, and other users of the server may delay that.
    let mut sound = Value::Null;
    for _ in 0..200 {
        place.good(&["expire"]);
        sound = place.json(&["verify"]);
        if sound["unlogged"] == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(
        (&sound["ok"], &sound["unlogged"]),
        (&true.into(), &0.into()),
        "{sound}"
    );
    assert_eq!(sound["head"]["size"], sound["events"]);
    let tables = ["approval", "call", "entry", "event", "log", "migration"];
    let keep: String = tables
        .iter()
        .map(|table| format!("CREATE TABLE saved.{table} AS TABLE countersign.{table};"))
        .collect();
    psql(&store, &format!("CREATE SCHEMA saved; {keep}"));
    let restore: String = tables
        .iter()
        .map(|table| format!("DELETE FROM countersign.{table}; INSERT INTO countersign.{table} SELECT * FROM saved.{table};"))
        .collect();
    let check = |what: &str, sql: &str, is_found: bool| {
        psql(&store, &format!("BEGIN; {restore} {sql}; COMMIT"));
        let left = place.run(&["--json", "verify"]);
        let expected = match what {
            // A number from a newer version: the audit could not run.
            "migration.step" => 2,
            _ => i32::from(is_found),
        };
        assert_eq!(left.code, expected, "{what}: {left:?}");
    };
    let list = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'countersign'
        AND table_name IN ('approval', 'call', 'entry', 'event', 'log', 'migration') ORDER BY 1, ordinal_position";
    let listed = psql(&store, list);
    assert!(listed.lines().count() > 40, "{listed}");
    let constraints =
        "SELECT string_agg(format('ALTER TABLE countersign.%I DROP CONSTRAINT %I', relname, conname), ';')
        FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
        WHERE contype = 'c' AND relnamespace = 'countersign'::regnamespace";
    let constraints = psql(&store, constraints);
    psql(&store, &constraints);
    for line in listed.lines() {
        let [table, column, kind] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let other = match kind {
            "bytea" => format!(
                "coalesce(overlay({column} placing '\\x00' from greatest(octet_length({column}), 1)) || '\\x01', '\\x07')"
            ),
            "text" => format!("coalesce({column} || 'x', 'x')"),
            "xid8" => format!("({column}::text::bigint + 100000)::text::xid8"),
            "timestamp with time zone" => format!("{column} + interval '1 hour'"),
            _ => format!("coalesce({column} + 100, 7)"),
        };
        let sql = format!(
            "UPDATE countersign.{table} SET {column} = {other} WHERE ctid = (SELECT ctid FROM countersign.{table} LIMIT 1)"
        );
        let is_found = !NO_TRACE.contains(&(table, column));
        check(&format!("{table}.{column}"), &sql, is_found);
    }
    for table in ["approval", "call", "event", "log"] {
        let sql = format!(
            "DELETE FROM countersign.{table} WHERE ctid = (SELECT ctid FROM countersign.{table} LIMIT 1)"
        );
        check(&format!("a row less in {table}"), &sql, true);
    }
    let whole = |id: &str| {
        let id = id.replace('-', "");
        format!(
            "DELETE FROM countersign.event WHERE approval = '\\x{id}'; DELETE FROM countersign.call WHERE approval = '\\x{id}';
             DELETE FROM countersign.approval WHERE id = '\\x{id}'"
        )
    };
    check("a whole approval less", &whole(&ids[0]), true);
    check("the last approval less", &whole(&ids[4]), true);
    check("an index less", "DROP INDEX countersign.approval_pending", true);
    psql(
        &store,
        "CREATE INDEX approval_pending ON countersign.approval (tenant, id) WHERE state = 0",
    );
    check("nothing", "SELECT 1", false);
    // Calls released by hand do not run.
    let release =
        "UPDATE countersign.approval SET state = 1, due_at = NULL; UPDATE countersign.call SET state = 2";
    check("released by hand", release, true);
    let left = place.run(&["wait", &ids[4], "--exec", "./tool"]);
    assert_ne!(left.code, 0, "{left:?}");
    assert!(left.stderr.contains("countersign verify"), "{left:?}");
    assert!(!place.path().join("ran").exists(), "it ran");
}
