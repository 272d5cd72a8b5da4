//! Arguments of `chat`, which talks to an agent.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Without a model the agent follows a fixed script, and says so. A model is used if ANTHROPIC_API_KEY or OPENAI_API_KEY
is set, or with --model.

Each change that the agent proposes is shown as a card. Answer in your own words, with Alt-Y or Alt-N, or with
`/yes` and `/no`. You can approve some of several calls: `all but the third`. `undo` proposes to undo the last change.

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
    /// URL of a model API: the Anthropic API if it ends in `/messages`, otherwise OpenAI chat completions
    #[arg(long, value_name = "URL", env = "COUNTERSIGN_MODEL")]
    pub model: Option<String>,
    /// Model name to request; overrides the agent's file
    #[arg(long, value_name = "NAME", env = "COUNTERSIGN_MODEL_NAME")]
    pub model_name: Option<String>,
    /// Data file of `crm`, `cms` or `ranch` [default: one in this folder]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Your language, such as `es` [default: the agent's]
    #[arg(long, value_name = "TAG")]
    pub language: Option<String>,
    /// Environment variable to pass to the command, besides PATH, HOME and the like (repeatable)
    #[arg(long, value_name = "NAME", value_parser = crate::environment::name, requires = "exec")]
    pub pass_env: Vec<String>,
    /// Command that runs the tools of your own agent; must come last
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub exec: Vec<String>,
}
