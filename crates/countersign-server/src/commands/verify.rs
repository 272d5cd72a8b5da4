//! `verify`: audits the store without changing anything.

use std::path::Path;

use countersign::id::Tenant;
use countersign::store::audit::{Audit, AuditProgress, Audited, Fault};
use countersign_store::sqlite::audit_file;
use serde_json::{Value, json};

use crate::cli::{Global, Verify};
use crate::failure::{Exit, Failure};
use crate::output::progress::Bar;
use crate::output::style::{self, paint};
use crate::output::{Output, once};
use crate::store::{self, Missing, SCHEMA_CHANGED, Watch, is_postgres};
use crate::trust::StorePlace;

pub async fn run(global: &Global, options: Verify, output: &mut Output) -> Result<Exit, Failure> {
    // If the audit could not run, the store is neither sound nor broken, and the exit code says so. A changed schema is
    // an exception: it is damage.
    let audited = audit_store(global, &options, output)
        .await
        .map_err(|failure| Failure {
            exit: match failure.code == SCHEMA_CHANGED {
                true => Exit::Error,
                false => Exit::Usage,
            },
            ..failure
        })?;
    // If the head of the log cannot be read, this is one of the faults that are printed below.
    if options.head && audited.is_sound() {
        match output.is_json {
            true => output.json(&head(&audited))?,
            false => output.line(&audited.head.to_string()),
        }
        return Ok(Exit::Done);
    }
    match output.is_json {
        true => output.json(&as_json(&audited))?,
        false => output.text(&as_text(&audited)),
    }
    Ok(if audited.is_sound() {
        Exit::Done
    } else {
        Exit::Error
    })
}

async fn audit_store(global: &Global, options: &Verify, output: &Output) -> Result<Audited, Failure> {
    if global.server.is_some() {
        let message = "a store is verified directly, not through a server";
        return Err(Failure::usage(message).hint("leave out `--server` and COUNTERSIGN_SERVER"));
    }
    let tenant = global.tenant.as_deref().map(Tenant::new).transpose();
    let audit = Audit {
        tenant: tenant.map_err(|problem| Failure::error("bad_name", problem.to_string()))?,
        sample: options.sample.or(options.head.then_some(0)),
        expected: options.since,
    };
    if audit.tenant.is_some() && audit.expected.is_some() {
        let message = "all tenants share one log";
        return Err(Failure::usage(message).hint("leave out `--tenant`"));
    }
    let bar = Bar::new(!output.is_json && !options.head);
    let audited = audit_at(global.store(), &audit, &|step| bar.show(step.done, step.total)).await;
    bar.clear();
    audited
}

/// Audits the store at `place`. A SQLite file is not opened for writing.
pub async fn audit_at(
    place: &str,
    audit: &Audit,
    progress: &(dyn Fn(AuditProgress) + Send + Sync),
) -> Result<Audited, Failure> {
    if is_postgres(place) {
        let store = store::open(place, Missing::Refuse, Watch::Nobody).await?;
        return Ok(store.audit(audit, progress).await?);
    }
    let path = Path::new(place);
    if matches!(path.try_exists(), Ok(false)) {
        let message = format!("there is no store at `{place}`");
        return Err(Failure::error("no_store", message).hint("name another store with `--store`"));
    }
    let place = StorePlace::find(path)?;
    Ok(audit_file(&place.path, audit, progress).await?)
}

fn as_text(audited: &Audited) -> String {
    let mut text: String = audited.faults.iter().map(line).collect();
    let (approvals, events) = (audited.approvals, audited.events);
    if audited.unlogged > 0 {
        let unlogged = audited.unlogged;
        text.push_str(&format!(
            "{unlogged} events are not in the log yet; a running service adds them within seconds\n"
        ));
    }
    let looked_at = format!("{approvals} approvals with {events} events");
    let faults = audited.more_faults.saturating_add(audited.faults.len() as u64);
    let verdict = match faults {
        0 => format!(
            "{}  {looked_at}; the log is at {}\n",
            paint(style::GOOD, "sound"),
            audited.head
        ),
        1 => format!("{}  one fault in {looked_at}\n", paint(style::ERROR, "broken")),
        _ => format!(
            "{}  {faults} faults in {looked_at}\n",
            paint(style::ERROR, "broken")
        ),
    };
    text.push_str(&verdict);
    text
}

fn line(fault: &Fault) -> String {
    let (label, hint) = (paint(style::ERROR, "fault"), paint(style::HINT, "hint:"));
    format!("{label}  {}\n  {hint} {}\n", once(&fault.to_string()), fault.hint)
}

fn head(audited: &Audited) -> Value {
    json!({ "size": audited.head.size, "root": audited.head.root.to_string() })
}

fn as_json(audited: &Audited) -> Value {
    let faults = audited.faults.iter().map(|fault| {
        json!({
            "tenant": fault.tenant,
            "approval": fault.approval,
            "code": fault.code,
            "message": fault.message,
            "hint": fault.hint,
        })
    });
    json!({
        "ok": audited.is_sound(),
        "approvals": audited.approvals,
        "events": audited.events,
        "head": head(audited),
        "unlogged": audited.unlogged,
        "faults": faults.collect::<Vec<_>>(),
        "moreFaults": audited.more_faults,
    })
}
