//! Requirements for approving a call, beyond being one of its approvers: four eyes, a quorum and an assurance.
//!
//! Denying has none of these requirements: anyone who may decide can deny, from any surface.

use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::read::Reader;
use crate::decision::Assurance;
use crate::effect::Risk;

/// Largest quorum that a policy can require.
pub const LARGEST_QUORUM: u8 = 5;

pub(super) const ASSURANCES: [(&str, Assurance); 6] = [
    ("text", Assurance::Text),
    ("button", Assurance::Button),
    ("api", Assurance::Api),
    ("command_line", Assurance::CommandLine),
    ("page", Assurance::Page),
    ("passkey", Assurance::Passkey),
];

/// Requirements for approving a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// True if neither the requester nor the person for whom the requester acts may approve.
    pub four_eyes: bool,
    /// Number of different people who must approve.
    pub quorum: u8,
    /// Lowest assurance that a decision needs to approve.
    pub assurance: Assurance,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority {
            four_eyes: false,
            quorum: 1,
            assurance: Assurance::Text,
        }
    }
}

/// Lowest assurance for each risk, in the order of [`Risk::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MinimumAssurances([Assurance; Risk::ALL.len()]);

impl Default for MinimumAssurances {
    /// Returns the default minimum for each risk. Critical calls need at least a button press, which identifies the
    /// exact card: a text reply is easily sent by mistake or from a hijacked chat account. A policy can require more.
    fn default() -> MinimumAssurances {
        MinimumAssurances([
            Assurance::Text,
            Assurance::Text,
            Assurance::Text,
            Assurance::Button,
        ])
    }
}

impl MinimumAssurances {
    pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> MinimumAssurances {
        let mut minimum = MinimumAssurances::default();
        let table = reader.table(root, "surfaces");
        let Some(table) = table.and_then(|value| value.get_ref().as_table()) else {
            return minimum;
        };
        reader.only(table, "`[surfaces]`", &Risk::ALL.map(Risk::as_str));
        for (risk, least) in Risk::ALL.into_iter().zip(&mut minimum.0) {
            *least = reader.choice(table, risk.as_str(), &ASSURANCES).unwrap_or(*least);
        }
        minimum
    }

    pub(super) fn least(self, risk: Risk) -> Assurance {
        let mut pairs = Risk::ALL.into_iter().zip(self.0);
        let found = pairs.find(|(listed, _)| *listed == risk);
        found.map_or(Assurance::Passkey, |(_, least)| least)
    }
}

/// Requirements that a tool's entry sets explicitly; the others follow from its risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AuthorityOverrides {
    pub(super) four_eyes: Option<bool>,
    pub(super) quorum: Option<u8>,
    pub(super) assurance: Option<Assurance>,
}

impl AuthorityOverrides {
    pub(super) fn read(reader: &mut Reader<'_>, table: &DeTable<'_>) -> AuthorityOverrides {
        AuthorityOverrides {
            four_eyes: reader.boolean(table, "four_eyes"),
            quorum: reader.number(table, "quorum", 1..=LARGEST_QUORUM),
            assurance: reader.choice(table, "surface", &ASSURANCES),
        }
    }

    /// Combines the explicit requirements with the defaults for this risk.
    pub(super) fn authority(self, risk: Risk, minimum: MinimumAssurances) -> Authority {
        Authority {
            four_eyes: self.four_eyes.unwrap_or(risk == Risk::Critical),
            quorum: self.quorum.unwrap_or(1),
            assurance: self.assurance.unwrap_or(minimum.least(risk)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{CallRequest, Definition, Policy, Ruling};

    #[track_caller]
    fn check(policy: &str, tool: &str, expected: (bool, u8, Assurance)) {
        let policy = Policy::parse(policy).unwrap_or_else(|problems| panic!("{problems}"));
        let request = CallRequest {
            tool,
            arguments: b"{}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
            working_folder: None,
        };
        let Ruling::Hold(terms) = policy.rule(request) else {
            panic!("`{tool}` is not held");
        };
        let found = terms.authority();
        assert_eq!(
            (found.four_eyes, found.quorum, found.assurance),
            expected,
            "{tool}"
        );
    }

    const POLICY: &str = r#"
[tools.plain]
effect = "write"

[tools.grave]
effect = "destructive"
risk = "critical"

[tools.grave_alone]
effect = "destructive"
risk = "critical"
four_eyes = false
surface = "text"

[tools.grave_for_two]
effect = "destructive"
risk = "critical"
quorum = 2

[tools.strict]
effect = "write"
risk = "low"
four_eyes = true
quorum = 5
surface = "page"

[tools.changed]
effect = "read"
definition = "0000000000000000000000000000000000000000000000000000000000000000"
"#;

    #[test]
    fn x34_h08_what_approving_takes_follows_from_risk_unless_it_is_said() {
        check(POLICY, "plain", (false, 1, Assurance::Text));
        check(POLICY, "grave", (true, 1, Assurance::Button));
        check(POLICY, "grave_alone", (false, 1, Assurance::Text));
        check(POLICY, "grave_for_two", (true, 2, Assurance::Button));
        check(POLICY, "strict", (true, 5, Assurance::Page));
        check(POLICY, "not_listed", (false, 1, Assurance::Text));
    }

    #[test]
    fn x59_authority_follows_from_the_final_risk() {
        let raised = "[tools.t]\neffect = 'write'\nrisk = 'high'\nraise_risk = 'true'\n\
                      [tools.said]\neffect = 'write'\nrisk = 'high'\nraise_risk = 'true'\nfour_eyes = false\n";
        check(raised, "t", (true, 1, Assurance::Button));
        // An explicit setting is kept, whatever the risk.
        check(raised, "said", (false, 1, Assurance::Button));
        let policy = Policy::parse("[tools.t]\neffect = 'read'").unwrap();
        let request = CallRequest {
            tool: "t",
            arguments: b"{}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
            working_folder: None,
        };
        let terms = policy.hold_traced(request, None, Some(Risk::Critical)).unwrap();
        assert_eq!(terms.risk(), Risk::Critical);
        assert_eq!(
            (terms.authority().four_eyes, terms.authority().assurance),
            (true, Assurance::Button)
        );
    }

    #[test]
    fn h08_a_table_says_the_least_surface_for_each_risk() {
        let table = "[surfaces]\nhigh = \"page\"\ncritical = \"passkey\"\nlow = \"button\"\n";
        let policy = format!("{table}{POLICY}");
        check(&policy, "plain", (false, 1, Assurance::Text));
        check(&policy, "grave", (true, 1, Assurance::Passkey));
        check(&policy, "grave_alone", (false, 1, Assurance::Text));
        check(&policy, "not_listed", (false, 1, Assurance::Page));
        // A tool whose definition does not match its pin has at least high risk.
        check(&policy, "changed", (false, 1, Assurance::Page));
    }

    #[test]
    fn the_catalogue_says_what_approving_takes() {
        let policy = Policy::parse(POLICY).unwrap_or_else(|problems| panic!("{problems}"));
        let catalogue = policy.catalogue();
        let grave = catalogue.iter().find(|listed| listed.tool == "grave_for_two");
        let expected = Authority {
            four_eyes: true,
            quorum: 2,
            assurance: Assurance::Button,
        };
        assert_eq!(grave.map(|listed| listed.authority), Some(expected));
    }

    #[test]
    fn an_edit_is_held_on_the_same_terms() {
        let policy = Policy::parse(POLICY).unwrap_or_else(|problems| panic!("{problems}"));
        let request = CallRequest {
            tool: "strict",
            arguments: b"{\"edited\":true}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
            working_folder: None,
        };
        assert_eq!(policy.hold(request).map(|terms| terms.authority().quorum), Ok(5));
    }
}
