//! Denials: what somebody said no to, kept for as long as it may not be asked again.
//!
//! Enters: a decided approval, or the calls of a proposal. Leaves: what the registry keeps of the denial, and until when
//! a proposal is refused.
//!
//! One rule: a proposal is refused when it holds everything that was denied together, in any order. A call that was
//! denied by itself, or left out of a batch that was approved in part, is refused in whatever company it comes. Calls that
//! were denied as one batch may be asked again apart: nobody said which of them was minded.
//! Values are compared, not bytes: see [`canonical`].
//! Deliberately absent: for how long. The policy says.

use std::sync::Arc;
use std::time::Duration;

use super::Rows;
use crate::approval::Approval;
use crate::call::Because;
use crate::hash::{Fields, Hash};
use crate::id::{Agent, Tenant};
use crate::json::canonical;
use crate::registry::{Entry, Kind};
use crate::store::StoreError;
use crate::time::Time;

/// The most denials one entry keeps. A call at the head of more batches than that counts as denied by itself.
const MOST_KEPT: usize = 16;
/// How entries are written; the first byte of their bodies.
const FORM: u8 = 1;

/// Some calls of one agent by their values, in no order. The same call may be there several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSet(Vec<Hash>);

impl CallSet {
    /// The set of these calls: tool and arguments.
    pub fn of<'c>(
        tenant: &Tenant,
        agent: &Agent,
        calls: impl Iterator<Item = (&'c str, &'c [u8])>,
    ) -> CallSet {
        let of_call = |(tool, arguments)| denial_key(tenant, agent, tool, arguments);
        let mut calls: Vec<Hash> = calls.map(of_call).collect();
        calls.sort_unstable();
        CallSet(calls)
    }

    /// The key of the entry that keeps a denial of this set: its smallest call. Nothing for no calls.
    fn key(&self) -> Option<String> {
        self.0.first().map(Hash::to_string)
    }

    /// The keys of all entries that may keep a denial of some of these calls.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut different = self.0.clone();
        different.dedup();
        different.iter().map(Hash::to_string).collect()
    }

    /// True when every call of `other` is here, as often as there.
    fn holds(&self, other: &CallSet) -> bool {
        // Both are sorted: each call is looked for behind the one before.
        let mut rest = self.0.iter();
        other.0.iter().all(|call| rest.any(|own| own == call))
    }
}

/// The hash of one call by its values, the same for every way to write them. It is made without a salt, because a later
/// proposal has to find it, so whatever holds it goes when the denied content is erased.
pub fn denial_key(tenant: &Tenant, agent: &Agent, tool: &str, arguments: &[u8]) -> Hash {
    Fields::new("countersign/denial/3")
        .field(tenant.as_str().as_bytes())
        .field(agent.as_str().as_bytes())
        .field(tool.as_bytes())
        .field(&canonical(arguments))
        .finish()
}

/// What was denied together: all calls of an approval that was denied, or each call that an approval left out.
fn denied_sets(approval: &Approval) -> Vec<CallSet> {
    let Some(decided) = &approval.decision else {
        return Vec::new();
    };
    let calls = approval.calls.iter();
    let set = |calls: &[&crate::call::Call]| {
        let calls = calls
            .iter()
            .map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
        CallSet::of(&approval.tenant, &approval.agent, calls)
    };
    if !decided.approved {
        return vec![set(&calls.collect::<Vec<_>>())];
    }
    let left_out = calls.filter(|call| call.because == Some(Because::Denied));
    let mut sets: Vec<CallSet> = left_out.map(|call| set(&[call])).collect();
    sets.sort_unstable_by_key(CallSet::key);
    sets.dedup();
    sets
}

/// The keys of all entries that a denial of this approval may have left, those of earlier versions included.
pub(super) fn keys_left_by(approval: &Approval) -> Vec<String> {
    let sets = denied_sets(approval);
    let mut keys: Vec<String> = sets.iter().filter_map(CallSet::key).collect();
    let calls = || approval.calls.iter();
    let values = calls().map(|call| (call.tool.as_str(), canonical(call.arguments.as_bytes())));
    keys.push(key_of_list("countersign/denial/2", approval, values));
    let written = calls().map(|call| (call.tool.as_str(), call.arguments.as_bytes().to_vec()));
    keys.push(key_of_list("countersign/denial/1", approval, written));
    keys
}

/// The key under which earlier versions kept the denial of a list of calls.
fn key_of_list<'c>(
    domain: &str,
    approval: &Approval,
    calls: impl Iterator<Item = (&'c str, Vec<u8>)>,
) -> String {
    let fields = Fields::new(domain)
        .field(approval.tenant.as_str().as_bytes())
        .field(approval.agent.as_str().as_bytes());
    let add =
        |fields: Fields, (tool, arguments): (&str, Vec<u8>)| fields.field(tool.as_bytes()).field(&arguments);
    calls.fold(fields, add).finish().to_string()
}

/// Notes for `wait` what a person denied of this approval.
pub(super) fn note<R: Rows>(rows: &mut R, approval: &Approval, wait: Duration) -> Result<(), StoreError> {
    let Some(decided) = &approval.decision else {
        return Ok(());
    };
    for calls in denied_sets(approval) {
        let Some(key) = calls.key() else { continue };
        let there = rows.entry(Kind::Denial, &key)?;
        let version = there.as_ref().map_or(0, |there| there.version);
        let mut denials = match there.filter(|there| there.is_there(decided.at)) {
            Some(there) => Denials::read(&there.body)?,
            None => Denials::default(),
        };
        denials.add(calls, decided.at.plus(wait), decided.at);
        rows.keep_entry(Entry {
            kind: Kind::Denial,
            key,
            tenant: approval.tenant.clone(),
            body: denials.write(),
            version: version.saturating_add(1),
            expires_at: denials.last(),
        })?;
    }
    Ok(())
}

/// The entries that [`note`] may change.
pub(super) fn entries_of(approval: &Approval) -> Vec<(Kind, String)> {
    let calls = approval.calls.iter();
    let calls = calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
    let keys = CallSet::of(&approval.tenant, &approval.agent, calls).keys();
    keys.into_iter().map(|key| (Kind::Denial, key)).collect()
}

/// Until when a proposal of these calls is refused; nothing when it may be asked.
pub(super) fn denied_until<R: Rows>(
    rows: &mut R,
    asked: &CallSet,
    cool_down: Duration,
    now: Time,
) -> Result<Option<Time>, StoreError> {
    let mut until = None;
    for key in asked.keys() {
        let entry = rows.entry(Kind::Denial, &key)?;
        if let Some(entry) = entry.filter(|entry| entry.is_there(now)) {
            until = until.max(Denials::read(&entry.body)?.until(asked, cool_down, now));
        }
    }
    Ok(until)
}

/// The body of an entry: sets of calls that share their smallest one, when each was denied, and until when that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Denials(Vec<Denied>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Denied {
    at: Time,
    until: Time,
    calls: CallSet,
}

impl Denials {
    /// Reads a body. One that cannot be read is an error: its calls are refused rather than asked again.
    fn read(body: &[u8]) -> Result<Denials, StoreError> {
        let damaged = || StoreError::Impossible("the entry of a denial cannot be read".to_owned());
        let mut rest = body.strip_prefix(&[FORM]).ok_or_else(damaged)?;
        let mut denials = Vec::new();
        let time = |bytes: &[u8; 8]| Time::from_micros(i64::from_be_bytes(*bytes));
        while let Some((at, behind)) = rest.split_first_chunk() {
            let (until, behind) = behind.split_first_chunk().ok_or_else(damaged)?;
            let (count, behind) = behind.split_first().ok_or_else(damaged)?;
            let length = usize::from(*count) * size_of::<Hash>();
            let (calls, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
            let calls: Vec<Hash> = calls.as_chunks().0.iter().copied().map(Hash).collect();
            // A set of no calls would be in every proposal.
            if calls.is_empty() {
                return Err(damaged());
            }
            denials.push(Denied {
                at: time(at),
                until: time(until),
                calls: CallSet(calls),
            });
            rest = behind;
        }
        match rest.is_empty() {
            true => Ok(Denials(denials)),
            false => Err(damaged()),
        }
    }

    /// The body as it is kept.
    fn write(&self) -> Arc<[u8]> {
        let mut body = vec![FORM];
        for Denied { at, until, calls } in &self.0 {
            body.extend_from_slice(&at.as_micros().to_be_bytes());
            body.extend_from_slice(&until.as_micros().to_be_bytes());
            body.push(u8::try_from(calls.0.len()).unwrap_or(u8::MAX));
            calls.0.iter().for_each(|call| body.extend_from_slice(&call.0));
        }
        body.into()
    }

    /// Adds what was denied at `now`, and forgets what may be asked again.
    fn add(&mut self, calls: CallSet, until: Time, now: Time) {
        self.0.retain(|known| known.until > now && known.calls != calls);
        self.0.push(Denied {
            at: now,
            until,
            calls,
        });
        if self.0.len() <= MOST_KEPT {
            return;
        }
        // INVARIANT: nothing is forgotten for want of room. What all of them share is refused from now on.
        let shared = self
            .0
            .iter()
            .filter_map(|denied| denied.calls.0.first())
            .copied()
            .min();
        let last = self.last();
        self.0 = last
            .zip(shared)
            .map(|(until, shared)| Denied {
                at: now,
                until,
                calls: CallSet(vec![shared]),
            })
            .into_iter()
            .collect();
    }

    /// The moment from which all of it may be asked again.
    fn last(&self) -> Option<Time> {
        self.0.iter().map(|denied| denied.until).max()
    }

    /// The end of the cool-down: as long as the policy of whoever asks says, and no longer than it is kept.
    fn until(&self, asked: &CallSet, cool_down: Duration, now: Time) -> Option<Time> {
        let held = self.0.iter().filter(|denied| asked.holds(&denied.calls));
        let ends = held.map(|denied| denied.until.min(denied.at.plus(cool_down)));
        ends.filter(|end| *end > now).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOMORROW: Time = Time::from_micros(86_400_000_000);
    const NOW: Time = Time::from_micros(1);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn set(numbers: &[u32]) -> CallSet {
        let arguments: Vec<String> = numbers.iter().map(|n| format!("{{\"n\":{n}}}")).collect();
        let calls = arguments.iter().map(|arguments| ("pay", arguments.as_bytes()));
        CallSet::of(&Tenant::single(), &Agent::new("crm").unwrap(), calls)
    }

    #[test]
    fn x99_a_proposal_is_refused_when_it_holds_all_that_was_denied_together() {
        let check = |denied: &[u32], asked: &[u32], expected: bool| {
            let mut denials = Denials::default();
            denials.add(set(denied), TOMORROW, NOW);
            let kept = Denials::read(&denials.write()).unwrap();
            assert_eq!(kept, denials);
            let refused = kept.until(&set(asked), DAY, NOW).is_some();
            assert_eq!(refused, expected, "denied {denied:?}, asked {asked:?}");
            // Whoever asks for it looks where it is kept.
            let found = set(asked).keys().contains(&set(denied).key().unwrap());
            assert!(found || !expected, "denied {denied:?}, asked {asked:?}");
        };
        check(&[1], &[1], true);
        check(&[1], &[2, 1], true);
        check(&[1], &[1, 1], true);
        check(&[1, 2], &[2, 1], true);
        check(&[1, 2], &[3, 2, 1], true);
        check(&[1, 2, 2], &[2, 1, 2, 2], true);
        check(&[1], &[2], false);
        check(&[1, 2], &[1], false);
        check(&[1, 2], &[1, 3], false);
        check(&[1, 2, 2], &[1, 2], false);
        check(&[1, 1], &[1], false);
    }

    #[test]
    fn x99_no_number_of_denials_makes_room_for_an_old_one() {
        let mut denials = Denials::default();
        let shared = set(&[0]);
        for n in 0..200 {
            let denied = CallSet([&shared.0[..], &[Hash([255; 32]), Hash::of(&[n])]].concat());
            denials.add(denied.clone(), TOMORROW, NOW);
            assert_eq!(denials.until(&denied, DAY, NOW), Some(TOMORROW), "{n}");
            assert!(denials.0.len() <= MOST_KEPT);
        }
        assert!(denials.until(&shared, DAY, NOW).is_some());
        let largest = CallSet(vec![Hash([7; 32]); 100]);
        let full = Denials(vec![
            Denied {
                at: NOW,
                until: TOMORROW,
                calls: largest,
            };
            MOST_KEPT
        ]);
        assert!(full.write().len() <= crate::registry::LARGEST_BODY);
        assert_eq!(Denials::read(&full.write()).unwrap(), full);
        // What is over is forgotten.
        denials.add(set(&[9]), TOMORROW, TOMORROW);
        assert_eq!(denials.0.len(), 1);
    }

    #[test]
    fn x99_a_damaged_entry_is_an_error() {
        let mut denials = Denials::default();
        denials.add(set(&[1, 2]), TOMORROW, NOW);
        let body = denials.write();
        let mut empty = vec![FORM];
        empty.extend([0; 17]);
        for bad in [
            &[][..],
            &[2],
            &body[1..],
            &body[..body.len() - 1],
            &body[..20],
            &empty,
        ] {
            assert!(Denials::read(bad).is_err(), "{bad:?}");
        }
    }
}
