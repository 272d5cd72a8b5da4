//! Arguments of `chat`, which talks to an agent.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Without a key the agent follows its script, and says so. A model is used when ANTHROPIC_API_KEY or OPENAI_API_KEY is
set, or with --model.

What the agent wants to change is put to you as a card. Answer in your own words, with Alt-Y or Alt-N, or with
`/yes` and `/no`; of several things some: `all but the third`. `undo` takes back what was done last.

Examples:
  countersign chat                                  a CRM, with contacts and deals to talk about
  countersign chat --agent ranch                    the same in Spanish, with paddocks
  countersign chat --model http://127.0.0.1:11434/v1 --model-name llama3.3
  countersign chat --agent my-agent --exec ./run-tool")]
pub struct Chat {
    /// Agent to talk to: `crm`, `cms`, `ranch`, or a folder with `agent.toml`, `tools.json` and `policy.toml`
    #[arg(long, value_name = "NAME|FOLDER", default_value = "crm")]
    pub agent: String,
    /// Name of the conversation; the same name continues it
    #[arg(long, value_name = "NAME", default_value = "chat")]
    pub session: String,
    /// A model's address: one that ends in `/messages` speaks Anthropic's dialect, any other chat completions
    #[arg(long, value_name = "URL", env = "COUNTERSIGN_MODEL")]
    pub model: Option<String>,
    /// Model name to request; overrides the agent's file
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_MODEL_NAME")]
    pub model_name: Option<String>,
    /// File for the data of `crm`, `cms` or `ranch`; by default one in this folder
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Your language, such as `es`; by default the agent's
    #[arg(long, value_name = "TAG")]
    pub language: Option<String>,
    /// A variable of the environment that the command gets besides PATH, HOME and the like; may be given several times
    #[arg(long, value_name = "NAME", value_parser = crate::environment::name, requires = "exec")]
    pub pass_env: Vec<String>,
    /// The command that runs the tools of an agent of your own; takes the rest of the line
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub exec: Vec<String>,
}
