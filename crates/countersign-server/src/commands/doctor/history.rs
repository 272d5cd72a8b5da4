//! Verifies the stored approvals against their events: a sample, or all of them.

use countersign::store::audit::Audit;

use super::Finding;
use crate::commands::verify::audit_at;

/// Number of the newest approvals to check, and number of randomly chosen others.
const SAMPLE: u32 = 500;

pub async fn check(place: &str, is_full: bool) -> Finding {
    let audit = Audit {
        sample: (!is_full).then_some(SAMPLE),
        ..Audit::default()
    };
    let audited = match audit_at(place, &audit, &|_| ()).await {
        Ok(audited) => audited,
        Err(failure) => return Finding::failed("history", failure),
    };
    let what = match is_full {
        true => format!("all {} approvals", audited.approvals),
        false => format!("a sample of {} approvals", audited.approvals),
    };
    match audited.faults.first() {
        None => Finding::good("history", format!("checked {what} against their events")),
        Some(fault) => Finding::problem(
            "history",
            format!("checked {what} against their events and found a contradiction: {fault}"),
            "keep a copy of the store and run `countersign verify`",
        ),
    }
}
