//! The library without its features: a policy that needs one is refused, and says which.

use countersign::policy::Schema;
use countersign::{Gate, MemoryStore, Policy, Submission, SubmittedCall, Tenant};

/// Checks that a policy with these lines is refused once, because a feature is missing.
#[track_caller]
fn check(text: &str, what: &str, feature: &str) {
    let problems = Policy::parse(text).expect_err(text).0;
    let [problem] = problems.as_slice() else {
        panic!("`{text}` has other problems: {problems:?}");
    };
    let expected = format!("{what} needs the feature `{feature}`, which this program was built without");
    assert_eq!(problem.message, expected, "{text}");
}

#[test]
fn a_policy_that_needs_a_missing_feature_is_refused() {
    for key in ["hold", "deny", "raise_risk"] {
        check(
            &format!("[tools.pay]\neffect = \"read\"\n{key} = \"args.amount > 100\""),
            "a condition",
            "cel",
        );
    }
    check(
        "[tools.pay]\neffect = \"read\"\nschema = { type = \"object\" }",
        "`schema`",
        "schema",
    );
    check(
        "[tools.fetch]\neffect = \"read\"\noutside = true",
        "`outside`",
        "provenance",
    );
    check(
        "[channel]\non_other = \"keep\"\n[tools.pay]\neffect = \"read\"",
        "`on_other`",
        "reply",
    );
    check(
        "[channel]\non_filler = \"approve\"\n[tools.pay]\neffect = \"read\"",
        "`on_filler`",
        "reply",
    );
}

#[test]
fn a_schema_does_not_compile_without_its_feature() {
    let reason = Schema::compile(&true.into()).expect_err("no schema");
    assert!(reason.contains("feature `schema`"), "{reason}");
}

#[test]
fn a_held_call_with_a_credential_is_refused_without_sealing() {
    let policy = Policy::parse("[tools.pay]\neffect = \"write\"").unwrap();
    let gate = Gate::new(MemoryStore::default(), policy);
    let mut call = SubmittedCall::new("pay", "{}");
    call.secret = Some(countersign::seal::Secret::new(*b"hunter2"));
    let submission = Submission::new(Tenant::single(), "crm", "crm-token", vec![call]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let refused = runtime.block_on(gate.submit(submission)).expect_err("no key");
    assert_eq!(
        refused.to_string(),
        "the call's secret cannot be kept: there is no sealing key"
    );
}
