//! A small CMS for a bakery's site. Eight tools delete, publish or send data outside; a person approves each call.
//!
//! The result of a deletion holds everything that was deleted, so that the undo can restore it exactly. Images are
//! moved to a bin instead, because their bytes are not sent to a model. A request that was sent outside cannot be
//! undone.
//!
//! The tools accept a `confirmed` argument, like those that this example is modelled on, and ignore it: the gate never
//! trusts the flag, and a call that gets here was approved.

mod image;
mod outside;
mod page;
mod post;
mod section;

use crate::tool::Act;
use crate::world::Setup;

/// Definition of the CMS world.
pub static SETUP: Setup = Setup {
    name: "cms",
    definitions: include_str!("tools.json"),
    policy: include_str!("policy.toml"),
    agent: include_str!("agent.toml"),
    script: include_str!("script.toml"),
    mark: 0x4353_0002,
    schema: include_str!("schema.sql"),
    seed: include_str!("seed.sql"),
    tools: &[
        ("cms_listPages", Act::Read(page::list)),
        ("cms_getPage", Act::Read(page::get)),
        ("cms_listPosts", Act::Read(post::list)),
        ("cms_getPost", Act::Read(post::get)),
        ("cms_listImages", Act::Read(image::list)),
        ("cms_deletePage", Act::Write(page::delete)),
        ("cms_deletePageSection", Act::Write(section::delete_one)),
        ("cms_deletePageSections", Act::Write(section::delete)),
        ("cms_publishPost", Act::Write(post::publish)),
        ("cms_archivePost", Act::Write(post::archive)),
        ("cms_deletePost", Act::Write(post::delete)),
        ("cms_deleteImage", Act::Write(image::delete)),
        ("http_post", Act::Send(outside::post)),
        ("cms_restorePage", Act::Write(page::restore)),
        ("cms_restoreSections", Act::Write(section::restore)),
        ("cms_unpublishPost", Act::Write(post::unpublish)),
        ("cms_unarchivePost", Act::Write(post::unarchive)),
        ("cms_restorePost", Act::Write(post::restore)),
        ("cms_restoreImage", Act::Write(image::restore)),
    ],
};
