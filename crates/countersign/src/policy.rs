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
