//! Tests the database roles of docs/postgres.md with the real service: the service's role can do its work, and nothing
//! else (X101).

use std::process::Command;

use crate::served::Served;
use crate::test_folder::{TestFolder, database};

/// Runs SQL as a role of a database; returns its output, or the error message.
fn sql(url: &str, text: &str) -> Result<String, String> {
    let bin = std::env::var("COUNTERSIGN_TEST_PG_BIN").unwrap();
    let ran = Command::new(format!("{bin}/psql"))
        .args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url,
            "-c",
            text,
        ])
        .output()
        .unwrap();
    match ran.status.success() {
        true => Ok(String::from_utf8(ran.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8(ran.stderr).unwrap()),
    }
}

fn as_role(url: &str, role: &str) -> String {
    let (_, place) = url.split_once('@').unwrap();
    format!("postgresql://{role}@{place}")
}

#[test]
fn x101_the_documented_roles_are_enough_for_the_service_and_rows_are_behind_a_wall() {
    let admin = database("roles");
    let number = std::process::id();
    let (owner, app) = (format!("owner_{number}"), format!("app_{number}"));
    let (_, name) = admin.rsplit_once('/').unwrap();
    let document = include_str!("../../../../docs/postgres.md");
    let part = |start: &str| {
        let (_, rest) = document.split_once(start).unwrap();
        let (part, _) = rest.split_once("```").unwrap();
        part.replace("countersign_owner", &owner)
            .replace("countersign_app", &app)
            .replace("DATABASE countersign", &format!("DATABASE {name}"))
    };
    for role in [&app, &owner] {
        let _ = sql(&admin, &format!("DROP ROLE IF EXISTS {role}"));
    }
    sql(&admin, &part("```sql owner\n")).unwrap();
    let (owner_url, app_url) = (as_role(&admin, &owner), as_role(&admin, &app));
    let mut place = TestFolder::new();
    place.write("countersign-serve.toml", "[tools.create_contact]\necho = true\n");
    // Installation: the owner creates the tables.
    place.keep_in(&owner_url);
    place.good(&["person", "add", "bob"]);
    sql(&admin, &part("```sql app role\n")).unwrap();
    // The service runs as the other role.
    place.keep_in(&app_url);
    let service = Served::start(&place);
    let (agent, ana) = (service.agent(), service.person());
    let id = service.propose(&agent, &["create_contact", r#"{"name":"Maria"}"#]);
    service.good(&ana, &["approve", &id]);
    let wait = ["--json", "wait", &id, "--finished", "--timeout", "20s"];
    let shown = service.good(&agent, &wait);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["calls"][0]["state"], "succeeded", "{shown}");
    let second = service.propose(&agent, &["create_contact", r#"{"name":"Marta"}"#]);
    service.good(&ana, &["deny", &second]);
    place.good(&["token", "list"]);
    place.good(&["person", "remove", "bob"]);
    place.good(&["expire"]);
    // Without a tenant no rows are visible; with one, only its own.
    for table in ["approval", "call", "event"] {
        let count = |setting: &str| {
            let text = format!("{setting} SELECT count(*) > 0 FROM countersign.{table}");
            sql(&app_url, &text).unwrap()
        };
        assert_eq!(count(""), "f", "{table}");
        assert_eq!(count("SET countersign.tenants = 'other';"), "f", "{table}");
        assert_eq!(count("SET countersign.tenants = '*';"), "f", "{table}");
        assert_eq!(count("SET countersign.tenants = 'main';"), "t", "{table}");
        let owned = sql(&owner_url, &format!("SELECT count(*) FROM countersign.{table}")).unwrap();
        assert_eq!(owned, "0", "the owner is behind the wall too: {table}");
    }
    let moved = "SET countersign.tenants = 'main'; UPDATE countersign.approval SET tenant = 'other'";
    let error = sql(&app_url, moved).unwrap_err();
    assert!(error.contains("row-level security"), "{error}");
    for forbidden in [
        "UPDATE countersign.event SET what = '{}'",
        "DELETE FROM countersign.event",
        "DELETE FROM countersign.approval",
        "TRUNCATE countersign.event",
        "ALTER TABLE countersign.event DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tenants ON countersign.event",
        "CREATE TABLE countersign.mine (x integer)",
    ] {
        let error = sql(&app_url, forbidden).expect_err(forbidden);
        assert!(
            error.contains("permission denied") || error.contains("must be owner"),
            "{forbidden}: {error}"
        );
    }
}
