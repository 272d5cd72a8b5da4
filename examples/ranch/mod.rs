//! A ranch and its paddocks, in Spanish: one call deletes thirteen paddocks by their exact ids.
//!
//! The tools keep the names of the product that this example is modelled on, including the `confirm` flag, which is
//! never trusted.

mod paddock;

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Act, Done, Fault, read};
use crate::world::Setup;
use paddock::{Paddock, all, by_id};

/// Definition of the ranch world.
pub static SETUP: Setup = Setup {
    name: "ranch",
    definitions: include_str!("tools.json"),
    policy: include_str!("policy.toml"),
    agent: include_str!("agent.toml"),
    script: include_str!("script.toml"),
    mark: 0x4353_0003,
    schema: include_str!("schema.sql"),
    seed: include_str!("seed.sql"),
    tools: &[
        ("carpeta/list-potreros", Act::Read(list)),
        ("carpeta/search-potreros", Act::Read(search)),
        ("carpeta/get-potrero", Act::Read(get)),
        ("carpeta/delete-potreros", Act::Write(delete)),
        ("carpeta/restore-potreros", Act::Write(restore)),
    ],
};

fn list(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let Nothing {} = read(arguments)?;
    Ok(json!({ "potreros": all(data)? }))
}

fn search(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Search {
        prefijo: String,
    }
    let Search { prefijo } = read(arguments)?;
    let start = folded(&prefijo);
    let mut found = all(data)?;
    found.retain(|paddock| folded(&paddock.nombre).starts_with(&start));
    Ok(json!({ "total": found.len(), "potreros": found }))
}

fn get(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct One {
        id: i64,
    }
    let One { id } = read(arguments)?;
    Ok(json!(by_id(data, id)?))
}

/// Deletes all given paddocks, or none if one of them is not what the person was shown.
fn delete(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Delete {
        ids: Vec<i64>,
        nombres: Option<Vec<String>>,
        #[serde(rename = "confirm")]
        _confirm: Option<bool>,
    }
    let Delete { ids, nombres, .. } = read(arguments)?;
    if ids.iter().collect::<BTreeSet<_>>().len() != ids.len() {
        return Err(Fault::said(
            "un potrero está dos veces en la lista; no se borró ninguno",
        ));
    }
    let found: Vec<Paddock> = ids.iter().map(|id| by_id(data, *id)).collect::<Result<_, _>>()?;
    if let Some(shown) = nombres {
        let names: Vec<&str> = found.iter().map(|paddock| paddock.nombre.as_str()).collect();
        if names != shown {
            let reason = "los nombres mostrados no son los de esos potreros; no se borró ninguno";
            return Err(Fault::said(reason));
        }
    }
    for id in &ids {
        data.execute("DELETE FROM potrero WHERE id = ?", [id])?;
    }
    Ok(json!({ "borrados": found.len(), "potreros": found }))
}

/// Restores deleted paddocks. Fails without any change if one's id or name is in use.
fn restore(data: &Connection, arguments: &[u8]) -> Done {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Restore {
        potreros: Vec<Paddock>,
    }
    let Restore { potreros } = read(arguments)?;
    for paddock in &potreros {
        paddock.insert(data)?;
    }
    Ok(json!({ "restaurados": potreros.len() }))
}

/// Removes case and accents, because people often type names without accents.
fn folded(text: &str) -> String {
    let plain = |letter: char| match letter {
        'á' => 'a',
        'é' => 'e',
        'í' => 'i',
        'ó' => 'o',
        'ú' | 'ü' => 'u',
        other => other,
    };
    text.to_lowercase().chars().map(plain).collect()
}
