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
    /// The tool's name
    #[arg(required_unless_present = "jsonl")]
    pub tool: Option<String>,
    /// One JSON object, `@FILE`, or `-` for standard input
    #[arg(value_name = "ARGUMENTS|@FILE|-", allow_hyphen_values = true)]
    pub arguments: Option<String>,
    /// What was said before the call
    #[arg(long, value_name = "FILE.json", required_unless_present = "jsonl")]
    pub conversation: Option<PathBuf>,
    /// Many calls, one per line, each with what was said before it
    #[arg(long, conflicts_with_all = ["tool", "arguments", "conversation"])]
    pub jsonl: bool,
    /// Say on standard error how long tracing took
    #[arg(long, requires = "jsonl", conflicts_with_all = ["tool", "arguments", "conversation"])]
    pub timing: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
This decides nothing: no store is touched, no model asked, nothing runs. A prompt is only text, so it is read with the
words of all kinds of questions. Real cards are read more strictly: there a yes is one of a short list of phrases, or
names the act as the policy does.
A reply is yes or no only when every word of it belongs to a plain answer.

Examples:
  countersign read 'Yes, go ahead' --prompt 'Delete 13 paddocks?'
  countersign read 'Sí, borrar' --yes 'Sí, borrar' --language es --destructive
  countersign read --jsonl < replies.jsonl           {\"id\",\"lang\",\"prompt\",\"reply\"} per line in,
                                                     {\"id\",\"decision\",\"why\"} out")]
pub struct Read {
    /// The reply
    #[arg(
        value_name = "REPLY",
        required_unless_present = "jsonl",
        allow_hyphen_values = true
    )]
    pub text: Option<String>,
    /// What the person was shown
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// The person's language, such as `es` or `pt-BR`; any, if you do not say
    #[arg(long, value_name = "TAG")]
    pub language: Option<String>,
    /// What the approving button says
    #[arg(long, value_name = "LABEL")]
    pub yes: Option<String>,
    /// What the denying button says
    #[arg(long, value_name = "LABEL")]
    pub no: Option<String>,
    /// Something destructive is offered: a filler such as `ok` is too little
    #[arg(long)]
    pub destructive: bool,
    /// Read many, one JSON object per line of standard input
    #[arg(long, conflicts_with = "text")]
    pub jsonl: bool,
}
