//! The pure parts, one by one: `cargo bench -p countersign`.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use countersign::call::Arguments;
use countersign::display::escape;
use countersign::json::{self, Limits};
use countersign::policy::{Asked, Policy};

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
    let asked = Asked {
        tool,
        arguments: arguments.as_bytes(),
        definition: None,
        salt: &[7; 16],
    };
    bencher.bench(|| policy.rule(divan::black_box(asked)));
}

#[divan::bench(args = ["plain ASCII text of a usual length", "Sí, borrar: año, größe, 東京", "hidden \u{202e}txt\u{200b}"])]
fn escape_text(text: &str) -> usize {
    escape(divan::black_box(text)).len()
}
