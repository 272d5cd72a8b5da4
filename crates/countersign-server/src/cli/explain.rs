//! Arguments of `trace` and `read`, which explain provenance and replies without a store.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
A conversation is {\"messages\":[…]}, oldest first, each with `role` and `text`: `user` is a person, `assistant` the
agent, `tool` a tool's result and `outside` text that strangers may have written, both with a `name`.

With --jsonl, each line of standard input is {\"id\",\"user\":[…],\"tools\":[{\"name\",\"text\"}],\"tool\",\"args\"}, and
each line of the answer {\"id\",\"leaves\":{\"/pointer\":\"user\" | \"tool:NAME\" | \"none\"}}: a derived value counts as the
person's only if all of its parts are.

Examples:
  countersign trace send_mail @mail.json --conversation chat.json
  countersign trace --jsonl < calls.jsonl > leaves.jsonl")]
pub struct Trace {
    /// Name of the tool
    #[arg(required_unless_present = "jsonl")]
    pub tool: Option<String>,
    /// Arguments: a JSON object, `@FILE`, or `-` for standard input
    #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
    pub arguments: Option<String>,
    /// Conversation before the call
    #[arg(long, value_name = "FILE.json", required_unless_present = "jsonl")]
    pub conversation: Option<PathBuf>,
    /// Read many calls from standard input, one JSON object per line
    #[arg(long, conflicts_with_all = ["tool", "arguments", "conversation"])]
    pub jsonl: bool,
    /// Print on standard error how long tracing took
    #[arg(long, requires = "jsonl", conflicts_with_all = ["tool", "arguments", "conversation"])]
    pub timing: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
This decides nothing and uses neither a store nor a model. A prompt is only text, so many kinds of answers count. Replies
to real cards are read more strictly: a yes must be one of a short list of phrases, or name the act as the policy does.
A reply is a yes or a no only if every word of it belongs to a plain answer.

Examples:
  countersign read 'Yes, go ahead' --prompt 'Delete 13 paddocks?'
  countersign read 'Sí, borrar' --yes 'Sí, borrar' --language es --destructive
  countersign read --jsonl < replies.jsonl           {\"id\",\"lang\",\"prompt\",\"reply\"} per line in,
                                                     {\"id\",\"decision\",\"why\"} out")]
pub struct Read {
    /// Reply to read
    #[arg(
        value_name = "REPLY",
        required_unless_present = "jsonl",
        allow_hyphen_values = true
    )]
    pub text: Option<String>,
    /// Text that the person was shown
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Language of the person, such as `es` or `pt-BR` [default: any]
    #[arg(long, value_name = "TAG")]
    pub language: Option<String>,
    /// Label of the approving button
    #[arg(long, value_name = "LABEL")]
    pub yes: Option<String>,
    /// Label of the denying button
    #[arg(long, value_name = "LABEL")]
    pub no: Option<String>,
    /// The call is destructive, so a filler such as `ok` is not enough
    #[arg(long)]
    pub destructive: bool,
    /// Read many replies from standard input, one JSON object per line
    #[arg(long, conflicts_with = "text")]
    pub jsonl: bool,
}
