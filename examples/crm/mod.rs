//! A small CRM: nine tools read, four write, and a person approves each write.
//!
//! Undoing a write deletes what it created. The tools for that are in the policy but not offered to the model.

mod read;
mod remove;
mod write;

use crate::tool::Act;
use crate::world::Setup;

/// Definition of the CRM world.
pub static SETUP: Setup = Setup {
    name: "crm",
    definitions: include_str!("tools.json"),
    policy: include_str!("policy.toml"),
    agent: include_str!("agent.toml"),
    script: include_str!("script.toml"),
    mark: 0x4353_0001,
    schema: include_str!("schema.sql"),
    seed: include_str!("seed.sql"),
    tools: &[
        ("search_contacts", Act::Read(read::search_contacts)),
        ("get_contact", Act::Read(read::get_contact)),
        ("list_contacts", Act::Read(read::list_contacts)),
        ("search_deals", Act::Read(read::search_deals)),
        ("get_deal", Act::Read(read::get_deal)),
        ("list_deals", Act::Read(read::list_deals)),
        ("get_pipeline", Act::Read(read::get_pipeline)),
        ("list_tasks", Act::Read(read::list_tasks)),
        ("list_activities", Act::Read(read::list_activities)),
        ("create_contact", Act::Write(write::create_contact)),
        ("create_deal", Act::Write(write::create_deal)),
        ("create_task", Act::Write(write::create_task)),
        ("log_activity", Act::Write(write::log_activity)),
        ("delete_contact", Act::Write(remove::delete_contact)),
        ("delete_deal", Act::Write(remove::delete_deal)),
        ("delete_task", Act::Write(remove::delete_task)),
        ("delete_activity", Act::Write(remove::delete_activity)),
    ],
};
