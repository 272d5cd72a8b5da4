//! Two real servers behind one gateway, and real clients in front of it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::{Running, everything};
use crate::peers::{drive, filesystem, gateway, node, package, python, typescript};
use crate::test_folder::TestFolder;

/// Transport over which the server `server-everything` is reached.
#[derive(Clone, Copy, Debug)]
enum Everything {
    Started,
    AtAddress,
}

/// Sets up the filesystem server and `server-everything`, with a policy made from their tool lists.
fn both(everything: Option<&Running>) -> (TestFolder, String) {
    let place = TestFolder::without_policy();
    let files = filesystem(&place);
    std::fs::write(format!("{}/a.txt", files[2]), "hello\n").unwrap();
    let every = match everything {
        Some(running) => format!("url = \"http://{}/mcp\"", running.address),
        None => format!(
            "command = {:?}",
            [
                node(),
                package("server-everything/dist/index.js"),
                "stdio".to_owned()
            ]
        ),
    };
    place.write(
        "servers.toml",
        format!(
            "[servers.files]
command = {files:?}
[servers.every]
{every}
"
        ),
    );
    place.good(&[
        "policy",
        "init",
        "--servers",
        "servers.toml",
        "--trust-annotations",
        "--output",
        "countersign.toml",
    ]);
    let policy = std::fs::read_to_string(place.path().join("countersign.toml")).unwrap();
    let echo = "[tools.\"every/echo\"]\neffect = \"";
    let (before, behind) = policy.split_once(echo).unwrap();
    let behind = behind.split_once('"').unwrap().1;
    place.write("countersign.toml", format!("{before}{echo}read\"{behind}"));
    let folder = files[2].clone();
    (place, folder)
}

fn check(name: &str, where_is: Everything, client: impl Fn(&Value, &Value) -> Command) {
    let running = match where_is {
        Everything::Started => None,
        Everything::AtAddress => Some(everything()),
    };
    let (place, folder) = both(running.as_ref());
    let servers = place.path().join("servers.toml").display().to_string();
    let gateway = gateway(&place, &["--servers", &servers, "--hold", "20s"]);
    let calls = json!([
        ["files__read_text_file", {"path": format!("{folder}/a.txt")}],
        ["every__echo", {"message": "hi"}],
        ["files__create_directory", {"path": format!("{folder}/new")}],
    ]);
    let lines = drive(&place, client(&gateway, &calls), Some("approve"));
    let tools = lines[0]["tools"].as_array().unwrap();
    let of = |server: &str| {
        let is_of = |tool: &&Value| tool.as_str().unwrap().starts_with(server);
        tools.iter().filter(is_of).count()
    };
    assert_eq!(of("files__"), 14, "{name}: {tools:?}");
    assert!(of("every__") > 5, "{name}: {tools:?}");
    assert_eq!(tools.last().unwrap(), "countersign_wait", "{name}");
    let said: Vec<&str> = lines[1..]
        .iter()
        .map(|line| {
            line["result"]["text"][0]
                .as_str()
                .unwrap_or_else(|| panic!("{name}: {lines:?}"))
        })
        .collect();
    assert_eq!((said[0], said[1]), ("hello\n", "Echo: hi"), "{name}");
    assert!(
        said[2].contains("Successfully created directory"),
        "{name}: {lines:?}"
    );
    assert!(PathBuf::from(format!("{folder}/new")).exists(), "{name}");
}

#[test]
fn x42_python_clients_use_two_real_servers_by_qualified_names() {
    use Everything::{AtAddress, Started};
    for (folder, mode, everything) in [
        ("python-legacy", "session", Started),
        ("python", "legacy", AtAddress),
        ("python", "auto", Started),
        ("python", "auto", AtAddress),
    ] {
        let name = format!("{folder} {mode} {everything:?}");
        check(&name, everything, |gateway, calls| {
            python(folder, mode, gateway, calls)
        });
    }
}

#[test]
fn x42_typescript_clients_use_two_real_servers_by_qualified_names() {
    use Everything::{AtAddress, Started};
    for (mode, everything) in [
        ("v1", Started),
        ("legacy", AtAddress),
        ("auto", Started),
        ("auto", AtAddress),
    ] {
        let name = format!("{mode} {everything:?}");
        check(&name, everything, |gateway, calls| {
            typescript(mode, gateway, calls)
        });
    }
}
