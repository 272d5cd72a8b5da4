//! Chooses the model provider: the one at the URL of `--model`, or else the one whose API key is in the environment.

use countersign_agent::file::{Provider, ProviderSettings};
use countersign_agent::model::{ApiKey, Proxy};

use crate::agents::{Choice, provider};
use crate::cli::Chat;
use crate::failure::Failure;

/// The chosen provider and its description for the person.
pub struct Chosen {
    pub provider: Provider,
    pub says: String,
}

/// Chooses a provider. Without a model URL and an API key, the agent follows its script; fails if there is no script.
pub fn choose(options: &Chat, has_script: bool) -> Result<Chosen, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let model = options.model_name.clone();
    if let Some(url) = &options.model {
        let proxy = Proxy::from_environment(variable);
        let proxy = proxy.map_err(|problem| Failure::error("no_model", problem))?;
        return Ok(at_address(url, model, proxy, variable));
    }
    let provider = provider(Choice::Auto, model, variable);
    let provider = provider.map_err(|problem| Failure::error("no_model", problem))?;
    let says = match &provider {
        Provider::Anthropic(service) => {
            format!("models at {}, because ANTHROPIC_API_KEY is set", service.url)
        }
        Provider::OpenAi(service) => format!("models at {}, because OPENAI_API_KEY is set", service.url),
        Provider::Script if has_script => {
            "it follows a script, because there is no key for a model".to_owned()
        }
        Provider::Script => {
            let message = "there is no key for a model, and the agent has no script";
            return Err(Failure::error("no_model", message)
                .hint("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model with `--model URL`"));
        }
    };
    Ok(Chosen { provider, says })
}

/// Returns the provider at `url`: Anthropic's Messages API if the path ends in `/messages`, else OpenAI's chat
/// completions API.
fn at_address(
    url: &str,
    model: Option<String>,
    proxy: Option<Proxy>,
    variable: impl Fn(&str) -> Option<String>,
) -> Chosen {
    let key = |name: &str| {
        let key = variable(name).filter(|key| !key.trim().is_empty());
        key.as_deref().map(ApiKey::new)
    };
    let service = |key| ProviderSettings {
        url: url.to_owned(),
        key,
        model,
        proxy,
    };
    match url.trim_end_matches('/').ends_with("/messages") {
        true => Chosen {
            says: format!("a model at {url}, in Anthropic's dialect"),
            provider: Provider::Anthropic(service(key("ANTHROPIC_API_KEY"))),
        },
        false => Chosen {
            says: format!("a model at {url}, by chat completions"),
            provider: Provider::OpenAi(service(key("OPENAI_API_KEY"))),
        },
    }
}
