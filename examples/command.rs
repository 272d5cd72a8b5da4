//! Runs one tool call for `countersign propose … --exec countersign-world crm crm.db`.
//!
//! Input: the tool and the call's id in the environment, the exact argument bytes on standard input. Output: the
//! result on standard output, or the reason on standard error. The parent process holds the permit; started by hand,
//! this program runs the tool like any other command.

use std::io::{Read as _, Write as _};

use countersign::executor::Outcome;
use countersign::id::Tenant;

use crate::world::{Job, World};
use crate::{WORLDS, named};

/// Maximum bytes of a call's arguments.
const LARGEST: u64 = countersign::json::Limits::ARGUMENTS.bytes as u64;

/// Runs the call that this process was started for.
pub async fn run(arguments: &[String]) -> Result<(), String> {
    let [name, file] = arguments else {
        let names: Vec<_> = WORLDS.iter().map(|setup| setup.name).collect();
        return Err(format!(
            "usage: countersign propose TOOL ARGUMENTS --exec countersign-world {} FILE",
            names.join("|")
        ));
    };
    let setup = named(name).ok_or_else(|| format!("there is no world `{name}`"))?;
    let variable = |name: &str| std::env::var(name).ok();
    let tool = variable("COUNTERSIGN_TOOL")
        .ok_or("`COUNTERSIGN_TOOL` is not set\nhint: let `countersign propose … --exec` start this")?;
    let call = variable("COUNTERSIGN_CALL_ID").map(|id| id.parse().map_err(|error| format!("{error}")));
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(LARGEST + 1);
    input.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let world = World::open(setup, file).map_err(|error| error.to_string())?;
    let job = Job {
        tenant: Tenant::single(),
        call: call.transpose()?,
        tool,
        arguments: bytes,
    };
    match world.perform(job).await {
        Outcome::Succeeded(result) => std::io::stdout()
            .write_all(&result)
            .map_err(|error| error.to_string()),
        Outcome::Failed(reason) => Err(String::from_utf8_lossy(&reason).into_owned()),
        Outcome::NotSent(reason) => Err(reason),
        // The parent takes only death by a signal as an unknown outcome.
        Outcome::Unknown(reason) => {
            let _ = writeln!(std::io::stderr(), "{reason}");
            std::process::abort()
        }
    }
}
