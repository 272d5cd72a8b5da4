//! Benchmarks of the pure functions: `cargo bench -p countersign`.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use countersign::call::Arguments;
use countersign::display::escape;
use countersign::json::{self, Limits};
use countersign::policy::{CallRequest, Policy};
use countersign::provenance::{Conversation, Message, trace};

fn main() {
    divan::main();
}

const POLICY: &str = r#"
[tools.find]
effect = "read"

[tools.create]
effect = "write"
summary = "Create {{ name }}, {{ email }}"

[tools.refund]
effect = "external"
hold = "args.amount >= 100.0"
"#;

fn arguments(bytes: usize) -> Vec<u8> {
    let text = r#"{"name":"Maria Garcia","email":"maria@acme.com","amount":12.5,"note":""}"#;
    let padding = "x".repeat(bytes.saturating_sub(text.len()));
    text.replace("\"\"}", &format!("\"{padding}\"}}")).into_bytes()
}

#[divan::bench(args = [128, 512, 4096, 65_000])]
fn check_arguments(bencher: divan::Bencher, bytes: usize) {
    let bytes = arguments(bytes);
    bencher.bench(|| json::check(divan::black_box(&bytes), Limits::default()).is_ok());
}

#[divan::bench(args = ["find", "create", "refund", "unlisted"])]
fn rule(bencher: divan::Bencher, tool: &str) {
    let policy = Policy::parse(POLICY).unwrap();
    let arguments = Arguments::parse(arguments(512)).unwrap();
    let request = CallRequest {
        tool,
        arguments: arguments.as_bytes(),
        definition: countersign::policy::Definition::Unknown,
        salt: &[7; 16],
        before: None,
        working_folder: None,
    };
    bencher.bench(|| policy.rule(divan::black_box(request)));
}

#[divan::bench(args = ["plain ASCII text of a usual length", "Sí, borrar: año, größe, 東京", "hidden \u{202e}txt\u{200b}"])]
fn escape_text(text: &str) -> usize {
    escape(divan::black_box(text)).len()
}

/// Traces a call of eight values after a conversation of this many bytes, mostly a tool's result.
#[divan::bench(args = [2_048, 16_384, 131_072])]
fn trace_call(bencher: divan::Bencher, bytes: usize) {
    let record =
        r#"{"id":"c7","name":"Maria Garcia","email":"maria@acme.com","orders":["W2378156","W2378157"]},"#;
    let result = format!("[{}null]", record.repeat(bytes / record.len()));
    let said = "Invite Maria Garcia on November 20th, 2026 at 9:30 am and pay her 1,200.50".to_owned();
    let conversation = Conversation {
        messages: vec![
            Message::Person { text: said, at: None },
            Message::Tool {
                name: "find_contact".to_owned(),
                text: result,
            },
        ],
    };
    let arguments = br#"{"name":"Maria Garcia","to":"maria@company.com","id":"c7","at":"2026-11-20T09:30:00Z","amount":1200.5,"note":"Invitation for Maria Garcia, enjoy","urgent":true,"order":"W2378157"}"#;
    bencher.bench(|| trace(divan::black_box(&conversation), arguments, &|_| false));
}
