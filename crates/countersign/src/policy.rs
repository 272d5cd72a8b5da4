//! stand-in
use crate::effect::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub effect: Effect,
    pub risk: Risk,
    pub summary: String,
    pub yes: Option<String>,
    pub no: Option<String>,
    pub ttl: Duration,
    pub start_within: Option<Duration>,
    pub timeout: Duration,
    pub approvers: Vec<String>,
    pub on_failure: OnFailure,
    pub undo: Undoable,
    pub notes: Vec<String>,
}
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum OnFailure {
    Stop,
    Continue,
}
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Undoable {
    Yes,
    No,
}
use crate::hash::Hash;
pub struct Asked<'a> {
    pub tool: &'a str,
    pub arguments: &'a [u8],
    pub definition: Option<Hash>,
    pub salt: &'a [u8],
}
pub enum Ruling {
    Pass(Pass),
    Hold(Terms),
    Forbid { reason: String },
}
pub struct Pass {
    pub effect: Effect,
    pub timeout: Duration,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnOther {
    Cancel,
    Keep,
}
pub struct ChannelRules {
    pub ttl: Duration,
    pub on_other: OnOther,
}
pub struct Policy;
impl Policy {
    pub fn rule(&self, _: &Asked<'_>) -> Ruling {
        Ruling::Forbid {
            reason: String::new(),
        }
    }
    pub fn terms(&self, _: &Asked<'_>) -> Result<Terms, String> {
        Err(String::new())
    }
    pub fn undo(&self, _tool: &str, _args: &[u8], _result: &[u8]) -> Result<(String, Vec<u8>), String> {
        Err(String::new())
    }
    pub fn hash(&self) -> Hash {
        Hash([0; 32])
    }
    pub fn channel(&self) -> ChannelRules {
        ChannelRules {
            ttl: Duration::from_secs(300),
            on_other: OnOther::Cancel,
        }
    }
}
