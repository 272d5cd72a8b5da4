//! Benchmark of reading replies: `cargo bench -p countersign --bench reply`. The goal is 500,000 per second on one
//! core.

use countersign::reply::{Bare, Offer, interpret};
use divan::counter::ItemsCount;

fn main() {
    // Build the tables before anything is measured.
    let _ = interpret(&Offer::default(), "yes", None);
    divan::main();
}

/// Typical prompts and replies: short ones, restatements, questions, changes, other subjects.
const REPLIES: [(&str, &str); 12] = [
    (
        "Please confirm: 2 tickets for the game on March 5th in Oakland.",
        "Yes, that is correct.",
    ),
    ("Do you want me to book a table for 2 at 7:15 pm?", "yes please"),
    (
        "Would you like to purchase tickets for this event?",
        "Sure, I'd like to purchase tickets to this event.",
    ),
    (
        "Play Lost Stars on the TV. Is this correct?",
        "No, play it on the bedroom speaker.",
    ),
    (
        "You want to visit Bay Village Apartments on March 12th?",
        "Yes. How much is the rent?",
    ),
    (
        "Is there anything else I can help you with?",
        "No, that's all. Thanks for your help.",
    ),
    (
        "Shall I delete the page About Us and its 12 sections?",
        "delete it",
    ),
    (
        "Transfer $260 from checking to savings?",
        "Actually, make that $300.",
    ),
    ("Shall I reserve the car?", "That sounds great, thank you!"),
    ("Should I buy the tickets?", "Not right now, maybe later."),
    ("", "what is the weather like in Paris tomorrow"),
    ("Create contact Maria Garcia, maria@acme.com?", "ok"),
];

#[divan::bench(args = [Some("en"), None])]
fn read(bencher: divan::Bencher, language: Option<&str>) {
    bencher.counter(ItemsCount::new(REPLIES.len())).bench(|| {
        for (text, reply) in REPLIES {
            let offer = Offer::from(Bare {
                text,
                ..Bare::default()
            });
            divan::black_box(interpret(&offer, divan::black_box(reply), language));
        }
    });
}
