//! What a call asks of those who approve it, beyond being on its list: other eyes, more of them, a better surface.
//!
//! Denying asks for none of this: whoever may decide at all may say no, from anywhere.

use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::read::Reader;
use crate::decision::Surface;
use crate::effect::Risk;

/// The most people one call can ask for.
pub const LARGEST_QUORUM: u8 = 5;

pub(super) const SURFACES: [(&str, Surface); 6] = [
    ("text", Surface::Text),
    ("button", Surface::Button),
    ("api", Surface::Api),
    ("command_line", Surface::CommandLine),
    ("page", Surface::Page),
    ("passkey", Surface::Passkey),
];

/// What approving a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// Whoever asked for it, or is acted for, cannot approve it.
    pub four_eyes: bool,
    /// So many different people have to approve it.
    pub quorum: u8,
    /// The least surface to approve it from.
    pub surface: Surface,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority {
            four_eyes: false,
            quorum: 1,
            surface: Surface::Text,
        }
    }
}

/// The least surface for each risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Surfaces([Surface; Risk::ALL.len()]);

impl Default for Surfaces {
    /// A word in a conversation is easily said, and a chat account easily taken; so what cannot be repaired takes at
    /// least a button, whose press names the very card. More can be asked for.
    fn default() -> Surfaces {
        Surfaces([Surface::Text, Surface::Text, Surface::Text, Surface::Button])
    }
}

impl Surfaces {
    pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Surfaces {
        let mut surfaces = Surfaces::default();
        let table = reader.table(root, "surfaces");
        let Some(table) = table.and_then(|value| value.get_ref().as_table()) else {
            return surfaces;
        };
        reader.only(table, "`[surfaces]`", &Risk::ALL.map(Risk::as_str));
        for (risk, surface) in Risk::ALL.into_iter().zip(&mut surfaces.0) {
            *surface = reader.choice(table, risk.as_str(), &SURFACES).unwrap_or(*surface);
        }
        surfaces
    }

    /// The least surface for this risk.
    pub(super) fn least(self, risk: Risk) -> Surface {
        let mut pairs = Risk::ALL.into_iter().zip(self.0);
        let found = pairs.find(|(listed, _)| *listed == risk);
        found.map_or(Surface::Passkey, |(_, surface)| surface)
    }
}

/// What a tool says about it; the rest follows from its risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asks {
    pub(super) four_eyes: Option<bool>,
    pub(super) quorum: Option<u8>,
    pub(super) surface: Option<Surface>,
}

impl Asks {
    pub(super) fn read(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Asks {
        Asks {
            four_eyes: reader.boolean(table, "four_eyes"),
            quorum: reader.number(table, "quorum", 1..=LARGEST_QUORUM),
            surface: reader.choice(table, "surface", &SURFACES),
        }
    }

    /// What approving takes for a tool of this risk.
    pub(super) fn authority(self, risk: Risk, surfaces: Surfaces) -> Authority {
        Authority {
            four_eyes: self.four_eyes.unwrap_or(risk == Risk::Critical),
            quorum: self.quorum.unwrap_or(1),
            surface: self.surface.unwrap_or(surfaces.least(risk)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Asked, Definition, Policy, Ruling};

    #[track_caller]
    fn check(policy: &str, tool: &str, expected: (bool, u8, Surface)) {
        let policy = Policy::parse(policy).unwrap_or_else(|problems| panic!("{problems}"));
        let asked = Asked {
            tool,
            arguments: b"{}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
        };
        let Ruling::Hold(terms) = policy.rule(asked) else {
            panic!("`{tool}` is not held");
        };
        let found = terms.authority();
        assert_eq!((found.four_eyes, found.quorum, found.surface), expected, "{tool}");
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
        check(POLICY, "plain", (false, 1, Surface::Text));
        check(POLICY, "grave", (true, 1, Surface::Button));
        check(POLICY, "grave_alone", (false, 1, Surface::Text));
        check(POLICY, "grave_for_two", (true, 2, Surface::Button));
        check(POLICY, "strict", (true, 5, Surface::Page));
        check(POLICY, "not_listed", (false, 1, Surface::Text));
    }

    #[test]
    fn x59_authority_follows_from_the_final_risk() {
        let raised = "[tools.t]\neffect = 'write'\nrisk = 'high'\nraise_risk = 'true'\n\
                      [tools.said]\neffect = 'write'\nrisk = 'high'\nraise_risk = 'true'\nfour_eyes = false\n";
        check(raised, "t", (true, 1, Surface::Button));
        // What the operator says outright stands, whatever the risk.
        check(raised, "said", (false, 1, Surface::Button));
        let policy = Policy::parse("[tools.t]\neffect = 'read'").unwrap();
        let asked = Asked {
            tool: "t",
            arguments: b"{}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
        };
        let terms = policy.hold_traced(asked, None, Some(Risk::Critical)).unwrap();
        assert_eq!(terms.risk(), Risk::Critical);
        assert_eq!(
            (terms.authority().four_eyes, terms.authority().surface),
            (true, Surface::Button)
        );
    }

    #[test]
    fn h08_a_table_says_the_least_surface_for_each_risk() {
        let table = "[surfaces]\nhigh = \"page\"\ncritical = \"passkey\"\nlow = \"button\"\n";
        let policy = format!("{table}{POLICY}");
        check(&policy, "plain", (false, 1, Surface::Text));
        check(&policy, "grave", (true, 1, Surface::Passkey));
        check(&policy, "grave_alone", (false, 1, Surface::Text));
        check(&policy, "not_listed", (false, 1, Surface::Page));
        // A tool that has become another one is at least of high risk.
        check(&policy, "changed", (false, 1, Surface::Page));
    }

    #[test]
    fn the_catalogue_says_what_approving_takes() {
        let policy = Policy::parse(POLICY).unwrap_or_else(|problems| panic!("{problems}"));
        let catalogue = policy.catalogue();
        let grave = catalogue.iter().find(|listed| listed.tool == "grave_for_two");
        let expected = Authority {
            four_eyes: true,
            quorum: 2,
            surface: Surface::Button,
        };
        assert_eq!(grave.map(|listed| listed.authority), Some(expected));
    }

    #[test]
    fn an_edit_is_held_on_the_same_terms() {
        let policy = Policy::parse(POLICY).unwrap_or_else(|problems| panic!("{problems}"));
        let asked = Asked {
            tool: "strict",
            arguments: b"{\"edited\":true}",
            definition: Definition::Unknown,
            salt: b"salt",
            before: None,
        };
        assert_eq!(policy.hold(asked).map(|terms| terms.authority().quorum), Ok(5));
    }
}
