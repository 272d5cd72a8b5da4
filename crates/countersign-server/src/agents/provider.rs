//! Chooses the provider of models: the one in the configuration, or one whose API key is in the environment.

use countersign_agent::file::{ANTHROPIC, OPENAI, Provider, ProviderSettings};
use countersign_agent::model::{ApiKey, Proxy};
use serde::Deserialize;

/// Choice of provider in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// By the available API keys: Anthropic's first, then OpenAI's, otherwise the script.
    #[default]
    Auto,
    /// The agent's own `script.toml`, which answers without a model.
    Script,
    /// Anthropic's API, with `ANTHROPIC_API_KEY`.
    Anthropic,
    /// OpenAI's chat completions API, with `OPENAI_API_KEY`. `OPENAI_BASE_URL` selects another server with the same
    /// API.
    OpenAi,
}

/// Returns the provider for a choice and the environment. `model` overrides the names in the agent's file.
pub fn provider(
    choice: Choice,
    model: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Provider, String> {
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let (anthropic, openai) = (variable("ANTHROPIC_API_KEY"), variable("OPENAI_API_KEY"));
    let (anthropic_url, openai_url) = (variable("ANTHROPIC_BASE_URL"), variable("OPENAI_BASE_URL"));
    if choice == Choice::Script || (choice == Choice::Auto && anthropic.is_none() && openai.is_none()) {
        return Ok(Provider::Script);
    }
    let proxy = Proxy::from_environment(variable)?;
    let service = |url: Option<String>, usual: &str, key: Option<String>| ProviderSettings {
        url: url.unwrap_or_else(|| usual.to_owned()),
        key: key.as_deref().map(ApiKey::new),
        model,
        proxy,
    };
    match (choice, anthropic, openai) {
        (Choice::Script, ..) | (Choice::Auto, None, None) => Ok(Provider::Script),
        (Choice::Auto | Choice::Anthropic, Some(key), _) => {
            Ok(Provider::Anthropic(service(anthropic_url, ANTHROPIC, Some(key))))
        }
        (Choice::Anthropic, None, _) => Err("`ANTHROPIC_API_KEY` is not set".to_owned()),
        // Self-hosted servers often need no key.
        (Choice::OpenAi, _, None) if openai_url.is_none() => {
            Err("neither `OPENAI_API_KEY` nor `OPENAI_BASE_URL` is set".to_owned())
        }
        (Choice::Auto | Choice::OpenAi, _, key) => Ok(Provider::OpenAi(service(openai_url, OPENAI, key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_and_without_one_there_is_the_script() {
        let check = |choice, set: &[&str], expected: &str| {
            let variable = |name: &str| set.contains(&name).then(|| format!("http://127.0.0.1/{name}"));
            let chosen = match provider(choice, None, variable) {
                Ok(Provider::Script) => "script".to_owned(),
                Ok(Provider::Anthropic(service)) => format!("anthropic {}", service.url),
                Ok(Provider::OpenAi(service)) => format!("openai {}", service.url),
                Err(problem) => problem,
            };
            assert_eq!(chosen, expected, "{choice:?} {set:?}");
        };
        check(Choice::Auto, &[], "script");
        check(
            Choice::Auto,
            &["ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
            &format!("anthropic {ANTHROPIC}"),
        );
        check(Choice::Auto, &["OPENAI_API_KEY"], &format!("openai {OPENAI}"));
        check(Choice::Script, &["ANTHROPIC_API_KEY"], "script");
        check(
            Choice::Anthropic,
            &["OPENAI_API_KEY"],
            "`ANTHROPIC_API_KEY` is not set",
        );
        check(
            Choice::OpenAi,
            &["OPENAI_BASE_URL"],
            "openai http://127.0.0.1/OPENAI_BASE_URL",
        );
        check(
            Choice::OpenAi,
            &[],
            "neither `OPENAI_API_KEY` nor `OPENAI_BASE_URL` is set",
        );
    }
}
