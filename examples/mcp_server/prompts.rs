//! Prompts that a user can start with.

use haft::{
    Gate, ToolError,
    mcp::{
        BoxFuture, McpClient, Prompts,
        model::{
            ContentBlock, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage,
            ResourceContents, Role,
        },
    },
};
use serde_json::{Value, json};

use crate::RED_DOT;

const SIMPLE: &str = "test_simple_prompt";
const ARGUMENTS: &str = "test_prompt_with_arguments";
const RESOURCE: &str = "test_prompt_with_embedded_resource";
const IMAGE: &str = "test_prompt_with_image";
const ASKING: &str = "test_input_required_result_prompt";

pub(crate) struct ExamplePrompts;

impl Prompts for ExamplePrompts {
    fn list(&self) -> Vec<Prompt> {
        let argument = |name: &str, description: &str| {
            PromptArgument::new(name).with_description(description).with_required(true)
        };
        let prompt = |name: &str, description: &str, arguments: Vec<PromptArgument>| {
            let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
            Prompt::new(name, Some(description), arguments)
        };
        vec![
            prompt(SIMPLE, "One line", vec![]),
            prompt(
                ARGUMENTS,
                "A line with two words filled in",
                vec![argument("arg1", "The first word"), argument("arg2", "The second word")],
            ),
            prompt(
                RESOURCE,
                "A file and what to do with it",
                vec![argument("resourceUri", "The file's address")],
            ),
            prompt(IMAGE, "An image and what to do with it", vec![]),
            prompt(ASKING, "Asks a question first", vec![]),
        ]
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
        _gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<GetPromptResult, ToolError>> {
        Box::pin(async move {
            let messages = match name {
                SIMPLE => vec![text("This is a simple prompt for testing.")],
                ARGUMENTS => {
                    let (one, two) = (word(arguments, "arg1")?, word(arguments, "arg2")?);
                    vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
                }
                RESOURCE => {
                    let uri = word(arguments, "resourceUri")?;
                    let file =
                        ResourceContents::text("Embedded resource content for testing.", uri);
                    let file = ContentBlock::resource(file.with_mime_type("text/plain"));
                    vec![message(file), text("Please process the embedded resource above.")]
                }
                IMAGE => {
                    let dot = ContentBlock::image(RED_DOT, "image/png");
                    vec![message(dot), text("Please analyze the image above.")]
                }
                ASKING => {
                    let form = json!({
                        "type": "object",
                        "properties": {"context": {"type": "string"}},
                        "required": ["context"],
                    });
                    let question = "What context should the prompt use?";
                    let answer = client.elicit("user_context", question, form).await?;
                    vec![text(format!("Use this: {}", answer.content.unwrap_or_default()))]
                }
                _ => {
                    return Err(ToolError::not_found(format!("no prompt `{name}`"))
                        .hint("list the prompts to see the names"));
                }
            };
            Ok(GetPromptResult::new(messages))
        })
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        argument: &'a str,
        written: &'a str,
    ) -> BoxFuture<'a, Vec<String>> {
        let known: &[&str] = match (prompt, argument) {
            (ARGUMENTS, "arg1") => &["paris", "park", "party", "test"],
            _ => &[],
        };
        let begun = known.iter().filter(|word| word.starts_with(written));
        let begun = begun.map(|word| (*word).to_owned()).collect();
        Box::pin(async { begun })
    }
}

fn text(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}

fn message(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}

/// Returns a required argument.
fn word<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ToolError> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| ToolError::input(format!("`{name}`: required")).hint("give it as text"))
}
