//! X92: processes that start while the clock is wrong. The tests do not move this machine's clock, but the last time
//! that the store knows.

use std::time::Duration;

use crate::served::Served;
use crate::test_folder::TestFolder;

const DAY: Duration = Duration::from_secs(86_400);

/// Creates a store that was last used 32 days ago according to this machine's clock.
fn used_32_days_ago(is_same_boot: bool) -> (TestFolder, String) {
    let place = TestFolder::new();
    let id = crate::many::leave_behind(&place.path().join("countersign.db"), DAY * 32, is_same_boot);
    (place, id)
}

/// Returns the number of stored sessions, expired or not: 0 or 1.
fn sessions(place: &TestFolder) -> i64 {
    let file = rusqlite::Connection::open(place.path().join("countersign.db")).unwrap();
    let sql = "SELECT count(*) FROM entry WHERE key = ?1";
    file.query_row(sql, [crate::many::SESSION], |row| row.get(0))
        .unwrap()
}

#[test]
fn x92_a_command_with_a_wrong_clock_ends_nothing() {
    // The machine has not rebooted, and by its monotonic clock no time has passed: the wall clock is 32 days wrong.
    let (place, id) = used_32_days_ago(true);
    let expired = place.run(&["expire"]);
    assert!(expired.stdout.contains("0 expired"), "{expired:?}");
    assert!(
        expired.stderr.contains("countersign clock --accept"),
        "{expired:?}"
    );
    assert!(place.good(&["clock"]).contains("jumped ahead"));
    let other = place.contact();
    assert_eq!(place.json(&["show", &id])["status"], "pending");
    place.good(&["approve", &id]);
    assert_eq!(sessions(&place), 1);
    // A service that starts does not follow the wall clock either.
    let served = Served::start(&place);
    std::thread::sleep(Duration::from_secs(1));
    served.kill();
    assert_eq!(place.json(&["show", &other])["status"], "pending");
    // A person confirms the clock.
    let accepted = place.good(&["clock", "--accept"]);
    assert!(accepted.contains("they agree"), "{accepted}");
    let expired = place.run(&["expire"]);
    assert!(expired.stdout.contains("1 expired"), "{expired:?}");
    assert_eq!(sessions(&place), 0);
}

#[test]
fn x92_after_a_pause_what_is_over_is_refused_and_kept_until_the_clock_is_certain() {
    let (place, id) = used_32_days_ago(false);
    let refused = place.run(&["approve", &id]);
    assert_eq!(refused.code, 4, "{refused:?}");
    let expired = place.run(&["expire"]);
    assert!(expired.stdout.contains("0 expired"), "{expired:?}");
    // The store can be used at once.
    let new = place.contact();
    place.good(&["approve", &new]);
    let expired = place.run(&["expire"]);
    assert!(expired.stdout.contains("0 expired"), "{expired:?}");
    assert_eq!(sessions(&place), 1);
    place.good(&["clock", "--accept"]);
    let expired = place.run(&["expire"]);
    assert!(expired.stdout.contains("1 expired"), "{expired:?}");
    assert_eq!((expired.stderr.as_str(), sessions(&place)), ("", 0));
}

#[test]
fn x92_the_clock_is_not_reset_under_a_service() {
    let place = TestFolder::new();
    place.contact();
    let served = Served::start(&place);
    let refused = place.run(&["clock", "--reset"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("stop every service"), "{refused:?}");
    served.propose(&served.agent(), &["create_contact", crate::test_folder::MARIA]);
    served.kill();
    place.good(&["clock", "--reset"]);
    assert_eq!(place.json(&["list"])["approvals"].as_array().unwrap().len(), 2);
}
