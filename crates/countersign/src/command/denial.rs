//! Denials: denied calls are remembered until their cool-down is over, so that an agent cannot ask again at once.
//!
//! The denied calls of a decided approval are recorded in the registry. A proposal is compared with these records, and
//! refused until the cool-down is over.
//!
//! The rule: a proposal is refused if it contains everything that was denied together, in any order. A call that was
//! denied alone, or left out of a partly approved batch, is refused in any combination. Calls that were denied as one
//! batch may be proposed again separately, because nobody said which of them was the problem. Values are compared, not
//! bytes: see [`canonical`]. The policy sets the length of the cool-down.

use std::sync::Arc;
use std::time::Duration;

use super::Rows;
use crate::approval::Approval;
use crate::call::RefusalReason;
use crate::hash::{Fields, Hash};
use crate::id::{Agent, Tenant};
use crate::json::canonical;
use crate::registry::{Entry, Kind};
use crate::store::StoreError;
use crate::time::Time;

/// Maximum number of denials in one entry. If more denied batches have the same smallest call, that call counts as
/// denied alone.
const MOST_KEPT: usize = 16;
/// Format version: the first byte of an entry's body.
const FORM: u8 = 1;

/// A multiset of an agent's calls, compared by value and without order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSet(Vec<Hash>);

impl CallSet {
    /// Builds the set from tool names and arguments.
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

    /// Returns the key of the entry for a denial of this set: its smallest call. `None` for an empty set.
    fn key(&self) -> Option<String> {
        self.0.first().map(Hash::to_string)
    }

    /// Returns the keys of all entries that may contain a denial of some of these calls.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut different = self.0.clone();
        different.dedup();
        different.iter().map(Hash::to_string).collect()
    }

    /// Returns true if this set contains `other`, counting repeated calls.
    fn holds(&self, other: &CallSet) -> bool {
        // Both are sorted, so the search for each call resumes after the previous match.
        let mut rest = self.0.iter();
        other.0.iter().all(|call| rest.any(|own| own == call))
    }
}

/// Returns the hash of one call by value, independent of how the JSON is written. The hash is not salted, because a
/// later proposal has to find it. It must therefore be removed when the denied content is erased.
pub fn denial_key(tenant: &Tenant, agent: &Agent, tool: &str, arguments: &[u8]) -> Hash {
    Fields::new("countersign/denial/3")
        .field(tenant.as_str().as_bytes())
        .field(agent.as_str().as_bytes())
        .field(tool.as_bytes())
        .field(&canonical(arguments))
        .finish()
}

/// Returns the sets of calls that were denied together: all calls of a denied approval, or each single call that a
/// partial approval left out.
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
    let left_out = calls.filter(|call| call.because == Some(RefusalReason::Denied));
    let mut sets: Vec<CallSet> = left_out.map(|call| set(&[call])).collect();
    sets.sort_unstable_by_key(CallSet::key);
    sets.dedup();
    sets
}

/// Returns the keys of all entries that a denial of this approval may have written, including those of earlier versions
/// of this program.
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

/// Returns the key under which earlier versions of this program kept the denial of a list of calls.
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

/// Records which calls of this approval a person denied. The record is kept for `wait` after the decision.
pub(super) fn record_denial<R: Rows>(
    rows: &mut R,
    approval: &Approval,
    wait: Duration,
) -> Result<(), StoreError> {
    let Some(decided) = &approval.decision else {
        return Ok(());
    };
    for calls in denied_sets(approval) {
        let Some(key) = calls.key() else { continue };
        let there = rows.entry(Kind::Denial, &key)?;
        let version = there.as_ref().map_or(0, |there| there.version);
        let mut denials = match there.filter(|there| there.is_live(decided.at)) {
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

/// Returns the entries that [`record_denial`] may write.
pub(super) fn entries_of(approval: &Approval) -> Vec<(Kind, String)> {
    let calls = approval.calls.iter();
    let calls = calls.map(|call| (call.tool.as_str(), call.arguments.as_bytes()));
    let keys = CallSet::of(&approval.tenant, &approval.agent, calls).keys();
    keys.into_iter().map(|key| (Kind::Denial, key)).collect()
}

/// Returns the time until which a proposal of these calls is refused; `None` if the proposal is allowed.
pub(super) fn denied_until<R: Rows>(
    rows: &mut R,
    asked: &CallSet,
    cool_down: Duration,
    now: Time,
) -> Result<Option<Time>, StoreError> {
    let mut until = None;
    for key in asked.keys() {
        let entry = rows.entry(Kind::Denial, &key)?;
        if let Some(entry) = entry.filter(|entry| entry.is_live(now)) {
            until = until.max(Denials::read(&entry.body)?.until(asked, cool_down, now));
        }
    }
    Ok(until)
}

/// Body of an entry: sets of calls with the same smallest call, each with the times of its denial and its expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Denials(Vec<Denied>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Denied {
    at: Time,
    until: Time,
    calls: CallSet,
}

impl Denials {
    /// Decodes a body. A damaged body is an error, so that its calls are refused rather than allowed.
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
            // An empty set is damage: every proposal contains it, so it would refuse them all.
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

    /// Adds a denial made at `now`, and drops expired ones.
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
        // INVARIANT: no denial is dropped for lack of room. Instead the call that all sets share counts as denied
        // alone.
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

    /// Returns the time at which the last denial expires; `None` if there are no denials.
    fn last(&self) -> Option<Time> {
        self.0.iter().map(|denied| denied.until).max()
    }

    /// Returns the end of the cool-down for these calls; `None` if it is over or they were not denied. The cool-down is
    /// that of the proposer's policy, but ends at the latest when the denial expires.
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
            // A refused proposal must also read the entry that holds the denial.
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
        // Expired denials are dropped.
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
