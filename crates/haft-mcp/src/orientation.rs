//! The prompt that haft itself offers: where the model is, and what it may do there.

use haft_core::{Gate, ToolError};
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptMessage, Role};

use crate::{
    Client,
    offers::{BoxFuture, Prompts},
};

const NAME: &str = "orientation";

pub(crate) struct Orientation;

impl Prompts for Orientation {
    fn list(&self) -> Vec<Prompt> {
        let description =
            "Tells the model where it works, with which tools, and what it is asked about";
        vec![Prompt::new(NAME, Some(description), None)]
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        _arguments: &'a JsonObject,
        gate: &'a Gate,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<GetPromptResult, ToolError>> {
        Box::pin(async move {
            if name != NAME {
                return Err(ToolError::not_found(format!("there is no prompt `{name}`"))
                    .hint(format!("the one prompt here is `{NAME}`")));
            }
            let text = text(gate, client).await;
            Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
        })
    }
}

async fn text(gate: &Gate, client: &Client) -> String {
    let caller = &client.0.caller;
    let agent = caller.agents.last().map(String::as_str);
    let mode = gate.policy().mode_for(agent);
    let shown = caller.tools(gate).await;
    let tools: Vec<String> = shown
        .iter()
        .map(|spec| format!("- `{}` ({}): {}", spec.name, spec.effect, spec.title))
        .collect();
    format!(
        "You work in {} through haft. Paths are relative to it; nothing outside can be reached.\n\
         What runs unasked is set by the mode `{mode}`: {}. The rest is asked of a person or refused; a refusal says \
         what would allow it, so tell the person instead of looking for a way around.\n\nThe tools:\n{}",
        gate.workspace_info().workspace.display(),
        mode.meaning(),
        tools.join("\n"),
    )
}
