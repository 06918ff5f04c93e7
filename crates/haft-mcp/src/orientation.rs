//! The prompt that haft offers: it tells the model where it works and what it may do.

use haft_core::{Gate, ToolError};
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptMessage, Role};

use crate::{
    McpClient,
    offers::{BoxFuture, Prompts},
};

const NAME: &str = "orientation";

pub(crate) struct Orientation;

impl Prompts for Orientation {
    fn list(&self) -> Vec<Prompt> {
        let description = "Tells the model its workspace, its tools, and which calls need approval";
        vec![Prompt::new(NAME, Some(description), None)]
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        _arguments: &'a JsonObject,
        gate: &'a Gate,
        client: &'a McpClient,
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

async fn text(gate: &Gate, client: &McpClient) -> String {
    let caller = &client.0.caller;
    let agent = caller.agents.last().map(String::as_str);
    let mode = gate.policy().mode_for(agent);
    let shown = caller.tools(gate).await;
    let tools: Vec<String> = shown
        .iter()
        .map(|spec| format!("- `{}` ({}): {}", spec.name, spec.effect, spec.title))
        .collect();
    format!(
        "You work in {} through haft. Paths are relative to it; paths outside are not accessible.\n\
         The mode `{mode}` decides what runs without approval: {}. Other calls need approval or are refused; a refusal says \
         what would allow the call, so tell the user instead of looking for a way around.\n\nThe tools:\n{}",
        gate.workspace_info().workspace.display(),
        mode.meaning(),
        tools.join("\n"),
    )
}
