//! Connecting: TLS, roles, and schema versions.

use std::path::PathBuf;

use countersign::id::Tenant;
use countersign::store::{Filter, Store, StoreError};
use countersign_store::postgres::{ConnectError, PostgresOptions, PostgresStore};

use crate::support::{
    approve, authority, database, feed, id, in_channel, new_approval, open, propose, raw, server, stored,
    with_database, with_role,
};

async fn failure(url: &str) -> ConnectError {
    let options = PostgresOptions::default();
    let error = PostgresStore::connect(url, options).await.expect_err(url);
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    assert!(!error.hint().is_empty());
    error
}

#[tokio::test]
async fn connection_errors_state_the_reason() {
    let error = failure("postgresql://postgres:canary@127.0.0.1:1/postgres").await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let error = failure(&with_database(&server(), "nowhere")).await;
    assert_eq!(error, ConnectError::NoDatabase("nowhere".to_owned()));
    let error = failure(&with_role(&server(), "nobody:canary")).await;
    assert!(
        matches!(error, ConnectError::AuthenticationFailed { .. }),
        "{error:?}"
    );
    let error = failure("postgresql://postgres:canary@db.example/postgres").await;
    assert!(matches!(error, ConnectError::Insecure { .. }), "{error:?}");
}

#[tokio::test]
async fn h17_tls_is_verified_or_refused() {
    let url = database().await;
    let verified = format!("{url}?sslmode=verify-full");
    let by_parameter = format!("{verified}&sslrootcert={}", authority());
    let store = open(&by_parameter).await;
    propose(&store, new_approval(1)).await;
    let client = raw(&url).await;
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE datname = current_database() AND application_name = 'countersign'";
    let row = client.query_one(encrypted, &[]).await.unwrap();
    assert!(
        row.get::<_, bool>(0),
        "every connection of the store is encrypted"
    );

    let by_option = PostgresOptions {
        ca_file: Some(PathBuf::from(authority())),
        ..PostgresOptions::default()
    };
    PostgresStore::connect(&url, by_option).await.unwrap();

    // The system's certificate authorities did not sign it, so every mode refuses.
    for mode in ["verify-full", "verify-ca", "require"] {
        let error = failure(&format!("{url}?sslmode={mode}")).await;
        assert!(matches!(error, ConnectError::Tls(_)), "{mode}: {error:?}");
    }
    // The certificate is for another host.
    let elsewhere = by_parameter.replace("@127.0.0.1:", "@127.0.0.2:");
    let error = failure(&elsewhere).await;
    assert!(
        matches!(error, ConnectError::Tls(_) | ConnectError::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn h16_the_schema_is_never_downgraded() {
    let url = database().await;
    let verify_only = PostgresOptions {
        migrate: false,
        ..PostgresOptions::default()
    };
    let error = PostgresStore::connect(&url, verify_only.clone())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ConnectError::OlderSchema { found: 0, .. }),
        "{error:?}"
    );

    // Many nodes start at once; one of them creates the schema.
    let nodes = (0..8).map(|_| PostgresStore::connect(&url, PostgresOptions::default()));
    for node in futures_util::future::join_all(nodes).await {
        node.unwrap();
    }
    PostgresStore::connect(&url, verify_only.clone()).await.unwrap();

    let client = raw(&url).await;
    client
        .batch_execute("INSERT INTO migration VALUES (99, '0099_future', '')")
        .await
        .unwrap();
    for options in [verify_only, PostgresOptions::default()] {
        let error = PostgresStore::connect(&url, options).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::NewerSchema { found: 99, .. }),
            "{error:?}"
        );
    }
    client
        .batch_execute(
            "DELETE FROM migration WHERE step = 99; UPDATE migration SET sha256 = '' WHERE step = 1",
        )
        .await
        .unwrap();
    assert!(matches!(failure(&url).await, ConnectError::ChangedMigration(_)));
}

/// The grants in docs/postgres.md are sufficient, and allow nothing else.
#[tokio::test]
async fn h17_the_app_role_can_do_its_work_and_nothing_else() {
    let url = database().await;
    open(&url).await;
    let owner = raw(&url).await;
    let role = format!("app_{}", std::process::id());
    let document = include_str!("../../../../docs/postgres.md");
    let (_, grants) = document.split_once("```sql app role\n").unwrap();
    let (grants, _) = grants.split_once("```").unwrap();
    owner
        .batch_execute(&format!("DROP ROLE IF EXISTS {role}"))
        .await
        .unwrap();
    owner
        .batch_execute(&grants.replace("countersign_app", &role))
        .await
        .unwrap();

    let as_app = with_role(&url, &role);
    let options = PostgresOptions {
        migrate: false,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&as_app, options).await.unwrap();
    propose(&store, in_channel(1, "telegram:1")).await;
    propose(&store, in_channel(2, "telegram:1")).await;
    assert_eq!(approve(&store, 2).await.unwrap().started, Some(1));
    let tenant = Tenant::single();
    assert_eq!(store.list(&tenant, &Filter::default()).await.unwrap().len(), 2);
    assert_eq!(store.events(&tenant, id(2)).await.unwrap().len(), 3);
    assert_eq!(feed(&store, 5).await.len(), 5);
    assert_eq!(stored(&store, 1).await.unwrap().superseded_by, Some(id(2)));

    let app = raw(&as_app).await;
    // X101: without a tenant no row is visible, with one only its own.
    for table in ["approval", "call", "event"] {
        let count = async |tenants: &str| -> i64 {
            let set = format!("SET countersign.tenants = '{tenants}'");
            app.batch_execute(&set).await.unwrap();
            let sql = format!("SELECT count(*) FROM {table}");
            app.query_one(&sql, &[]).await.unwrap().get(0)
        };
        assert_eq!(count("").await, 0, "{table}");
        assert_eq!(count("other").await, 0, "{table}");
        assert!(count("main").await > 0, "{table}");
        app.batch_execute("RESET countersign.tenants").await.unwrap();
    }
    for forbidden in [
        "UPDATE event SET what = '{}'",
        "DELETE FROM event",
        "TRUNCATE event",
        "DELETE FROM approval",
        "DROP TABLE event",
        "ALTER TABLE event DISABLE TRIGGER ALL",
        "CREATE TABLE countersign.mine (x integer)",
        "UPDATE migration SET sha256 = ''",
    ] {
        let error = app.batch_execute(forbidden).await.expect_err(forbidden);
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("42501"), "`{forbidden}`: {error}");
    }
    // The role may not migrate, and gets a clear error. On a current schema no migration is needed.
    let denied = with_role(&database().await, &role);
    let error = failure(&denied).await;
    assert!(
        matches!(error, ConnectError::InsufficientPrivilege { .. }),
        "{error:?}"
    );
}

/// A database of 0.1.0 is migrated with its contents and gets row-level security.
#[tokio::test]
async fn x101_a_database_of_the_first_release_gets_row_security() {
    let url = database().await;
    let store = open(&url).await;
    propose(&store, in_channel(1, "telegram:1")).await;
    drop(store);
    // Restores the schema of 0.1.0.
    let owner = raw(&url).await;
    for table in ["approval", "call", "event"] {
        let sql = format!(
            "DROP POLICY tenants ON {table}; ALTER TABLE {table} DISABLE ROW LEVEL SECURITY; \
             ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"
        );
        owner.batch_execute(&sql).await.unwrap();
    }
    owner
        .batch_execute(
            "DELETE FROM migration WHERE step >= 3; DROP TABLE log; ALTER TABLE event DROP COLUMN content; \
             ALTER TYPE new_event DROP ATTRIBUTE content; ALTER TABLE approval DROP CONSTRAINT approval_state_check; \
             ALTER TABLE approval ADD CONSTRAINT approval_state_check CHECK (state BETWEEN 0 AND 5)",
        )
        .await
        .unwrap();
    let store = open(&url).await;
    assert!(stored(&store, 1).await.is_some());
    // The content hash that approval 1 was bound to was dropped with its column.
    assert!(matches!(approve(&store, 1).await, Err(StoreError::Impossible(_))));
    propose(&store, in_channel(2, "telegram:2")).await;
    assert_eq!(approve(&store, 2).await.unwrap().started, Some(1));
    let forced = "SELECT count(*) FROM pg_class WHERE relrowsecurity AND relforcerowsecurity \
                  AND relnamespace = 'countersign'::regnamespace";
    let walls: i64 = owner.query_one(forced, &[]).await.unwrap().get(0);
    assert_eq!(walls, 3);
}

/// Tenants that share connections in turn always see only their own rows.
#[tokio::test]
async fn x101_alternating_tenants_see_only_their_own_rows() {
    let url = database().await;
    open(&url).await;
    let owner = raw(&url).await;
    let role = format!("turns_{}", std::process::id());
    let grants = format!(
        "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA countersign TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA countersign TO {role}"
    );
    owner.batch_execute(&grants).await.unwrap();
    let store = PostgresStore::connect(&with_role(&url, &role), PostgresOptions::default())
        .await
        .unwrap();
    let tenants: Vec<Tenant> = (0..4).map(|n| Tenant::new(format!("t{n}")).unwrap()).collect();
    let store = std::sync::Arc::new(store);
    let mut turns = Vec::new();
    for number in 0..80u64 {
        let (store, tenant) = (
            store.clone(),
            tenants[usize::try_from(number % 4).unwrap()].clone(),
        );
        turns.push(tokio::spawn(async move {
            let new = countersign::command::Propose {
                tenant: tenant.clone(),
                ..new_approval(1000 + number)
            };
            propose(&store, new).await;
            let found = store.approval(&tenant, id(1000 + number)).await.unwrap();
            assert!(found.is_some(), "{number}");
            assert!(!store.events(&tenant, id(1000 + number)).await.unwrap().is_empty());
            let other = Tenant::new("t9").unwrap();
            assert!(store.approval(&other, id(1000 + number)).await.unwrap().is_none());
        }));
    }
    for turn in turns {
        turn.await.unwrap();
    }
    for tenant in &tenants {
        assert_eq!(store.list(tenant, &Filter::default()).await.unwrap().len(), 20);
    }
}
