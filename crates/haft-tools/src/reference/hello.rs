//! `hello`: the smallest tool, used as the example in the documentation.

use haft_core::{Output, Progress, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MAX_TIMES: u32 = 100;

/// The name to greet and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "name": "Ada", "language": "german", "times": 2 }))]
pub struct Hello {
    /// The name to greet.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// The language of the greeting.
    #[serde(default)]
    pub language: Language,
    /// How many times to repeat the greeting.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = MAX_TIMES))]
    pub times: u32,
    /// Use capital letters.
    #[serde(default)]
    pub shout: bool,
}

fn once() -> u32 {
    1
}

/// A supported language.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    #[default]
    English,
    French,
    German,
    Spanish,
}

impl Language {
    fn word(self) -> &'static str {
        match self {
            Self::English => "Hello",
            Self::French => "Bonjour",
            Self::German => "Hallo",
            Self::Spanish => "Hola",
        }
    }
}

/// The greetings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Greeting {
    /// The greetings, one a line.
    pub text: String,
    /// The number of greetings.
    pub times: u32,
}

impl Output for Greeting {
    fn text(&self) -> String {
        self.text.clone()
    }
}

/// Greets a name. Needs no capability with a permission: `Progress` is free.
#[tool(
    idempotent,
    deadline = "10s",
    variables(max_times = MAX_TIMES),
    profiles(researcher, reviewer)
)]
pub async fn hello(input: Hello, progress: Progress) -> Result<Greeting, ToolError> {
    let name = input.name.trim();
    if name.is_empty() {
        return Err(ToolError::input("name: only white space").hint("give a name to greet"));
    }
    let greeting = format!("{}, {name}!", input.language.word());
    let greeting = if input.shout { greeting.to_uppercase() } else { greeting };
    let mut lines = Vec::new();
    for time in 1..=input.times {
        lines.push(greeting.as_str());
        progress.step(f64::from(time), Some(f64::from(input.times)), "greeting");
    }
    Ok(Greeting { text: lines.join("\n"), times: input.times })
}

#[cfg(test)]
mod tests {
    use haft_core::ErrorKind;

    use super::*;

    fn to(name: &str) -> Hello {
        Hello { name: name.into(), language: Language::English, times: 1, shout: false }
    }

    #[tokio::test]
    async fn greets() {
        let loud = Hello { language: Language::German, times: 2, shout: true, ..to("Ada") };
        let greeting = hello(loud, Progress::silent()).await.expect("a name");
        assert_eq!(greeting.text, "HALLO, ADA!\nHALLO, ADA!");
    }

    #[tokio::test]
    async fn a_blank_name_is_refused() {
        let error = hello(to("  "), Progress::silent()).await.expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
}
