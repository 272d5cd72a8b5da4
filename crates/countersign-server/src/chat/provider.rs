//! Which models: those of a key in the environment, one at an address, or a script.

use countersign_agent::file::{ANTHROPIC, OPENAI, Provider, Service};
use countersign_agent::model::ApiKey;

use crate::cli::Chat;
use crate::failure::Failure;

/// What was chosen, and how that is told.
pub struct Chosen {
    pub provider: Provider,
    pub says: String,
}

/// Chooses: an address that was named, then Anthropic's key, then OpenAI's, then the script.
pub fn choose(options: &Chat, has_script: bool) -> Result<Chosen, Failure> {
    let anthropic = key("ANTHROPIC_API_KEY");
    let openai = key("OPENAI_API_KEY");
    let model = options.model_name.clone();
    if let Some(url) = &options.model {
        let is_anthropic = url.trim_end_matches('/').ends_with("/messages");
        let (name, key) = match is_anthropic {
            true => ("Anthropic's dialect", anthropic),
            false => ("chat completions", openai),
        };
        let service = Service {
            url: url.clone(),
            key,
            model,
        };
        return Ok(Chosen {
            says: format!("a model at {url}, {name}"),
            provider: match is_anthropic {
                true => Provider::Anthropic(service),
                false => Provider::OpenAi(service),
            },
        });
    }
    let at = |url: &str, key| Service {
        url: url.to_owned(),
        key: Some(key),
        model: model.clone(),
    };
    match (anthropic, openai) {
        (Some(key), _) => Ok(Chosen {
            says: "Anthropic's models, because ANTHROPIC_API_KEY is set".to_owned(),
            provider: Provider::Anthropic(at(ANTHROPIC, key)),
        }),
        (None, Some(key)) => Ok(Chosen {
            says: "OpenAI's models, because OPENAI_API_KEY is set".to_owned(),
            provider: Provider::OpenAi(at(OPENAI, key)),
        }),
        (None, None) if has_script => Ok(Chosen {
            says: "it follows a script, because there is no key for a model".to_owned(),
            provider: Provider::Script,
        }),
        (None, None) => Err(Failure::error(
            "no_model",
            "there is no key for a model, and the agent has no script",
        )
        .hint("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model with `--model URL`")),
    }
}

fn key(name: &str) -> Option<ApiKey> {
    let key = std::env::var(name).ok()?;
    (!key.trim().is_empty()).then(|| ApiKey::new(&key))
}
