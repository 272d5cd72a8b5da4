//! Ten thousand conversations with steps in random order: a yes only ever approves the card that was shown last.

use std::time::Duration;

use countersign::approval::SharedApproval;
use countersign::conversation::{Conversations, Message, Origin};
use countersign::decision::Surface;
use countersign::id::{ApprovalId, Channel, Key, Tenant};
use countersign::state::State;

use crate::world::*;

/// A small random generator, so that a failing run can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[tokio::test]
async fn x03_no_yes_lands_on_a_card_that_was_not_the_last_shown() {
    let mut approved = 0;
    let mut shared = world();
    for seed in 1..=10_000u64 {
        if seed % 100 == 0 {
            shared = world();
        }
        approved += run(&shared, seed).await;
    }
    assert!(approved > 500, "the runs must also approve: {approved}");
}

async fn run(world: &World, seed: u64) -> u32 {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let conversations = Conversations::new(world.gate.clone());
    let channel = Channel::new(format!("chat-{seed}")).unwrap();
    let ran_before = world.ran().len();
    // Our messages in the channel in order, with the approval that each shows.
    let mut standing: Vec<(Key, Option<ApprovalId>)> = Vec::new();
    let mut unsent: Vec<(Message, Option<ApprovalId>)> = Vec::new();
    let mut approvals: Vec<SharedApproval> = Vec::new();
    let mut approved = 0;
    for step in 0..12 {
        let id = Key::new(format!("m-{step}")).unwrap();
        match dice.roll(6) {
            // Proposes, replacing the pending approval; the card may be shown late or never.
            0 | 1 => {
                let arguments = format!(r#"{{"name":"N{step}","email":"e","company":"c"}}"#);
                let mut submission = submission(vec![call("create_contact", &arguments)]);
                submission.channel = Some(channel.clone());
                let approval = world.gate.submit(submission).await.unwrap().approval.unwrap();
                if dice.roll(4) > 0 {
                    let prompt = conversations.prompt(&approval, None).await.unwrap();
                    conversations
                        .shown(&Tenant::single(), &channel, &prompt, id.clone())
                        .await
                        .unwrap();
                    standing.push((id, Some(approval.id)));
                }
                approvals.push(approval);
            }
            // A person sends a message that arrives later.
            2 | 3 => {
                let text = ["yes", "no", "what?"][dice.roll(3) as usize];
                let last = standing.last().cloned();
                let mut sender = alice();
                sender.surface = Surface::Text;
                let message = Message {
                    tenant: Tenant::single(),
                    channel: channel.clone(),
                    sender,
                    text: text.to_owned(),
                    language: None,
                    id,
                    origin: Origin::Written,
                    after: last.as_ref().map(|(id, _)| id.clone()),
                };
                unsent.push((message, last.and_then(|(_, shown)| shown)));
            }
            // A message arrives, perhaps twice.
            4 if !unsent.is_empty() => {
                let at = dice.roll(unsent.len() as u64) as usize;
                let (message, looked_at) = unsent[at].clone();
                if dice.roll(3) > 0 {
                    unsent.remove(at);
                }
                let before = states(world, &approvals).await;
                let shown_last = standing.last().and_then(|(_, shown)| *shown);
                let said = conversations.hear(message).await.unwrap();
                for (approval, before) in approvals.iter().zip(before) {
                    let now = world.now(approval).await.state;
                    if before == State::Pending && now == State::Approved {
                        approved += 1;
                        assert_eq!(
                            looked_at,
                            Some(approval.id),
                            "seed {seed}: not the card they had seen"
                        );
                        assert_eq!(
                            shown_last,
                            Some(approval.id),
                            "seed {seed}: not the last card shown"
                        );
                    }
                }
                if said.say.is_some() && said.show.is_none() {
                    let key = Key::new(format!("s-{step}")).unwrap();
                    conversations.said(&Tenant::single(), &channel).await.unwrap();
                    standing.push((key, None));
                } else if let Some(prompt) = said.show {
                    let key = Key::new(format!("s-{step}")).unwrap();
                    conversations
                        .shown(&Tenant::single(), &channel, &prompt, key.clone())
                        .await
                        .unwrap();
                    standing.push((key, Some(prompt.approval)));
                }
            }
            // Time passes, sometimes beyond the expiry.
            _ => world
                .clock
                .advance(Duration::from_secs(30 + 300 * (dice.roll(8) / 7))),
        }
    }
    let ran = u32::try_from(world.ran().len() - ran_before).unwrap();
    assert_eq!(ran, approved, "seed {seed}: what ran is what was approved");
    approved
}

async fn states(world: &World, approvals: &[SharedApproval]) -> Vec<State> {
    let mut states = Vec::new();
    for approval in approvals {
        states.push(world.now(approval).await.state);
    }
    states
}
