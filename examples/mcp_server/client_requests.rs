//! Tools that ask the client during a call. They work with both versions of the protocol: with an
//! older client the tool waits for the answer. From 2026-07-28 on the `?` ends the call, and the
//! client repeats the call with the answer.

use haft::{
    Call, Capability, Reply, ToolError,
    mcp::{
        McpClient,
        model::{CreateMessageRequestParams, ElicitResult, SamplingMessage},
    },
    tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::ExampleTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SamplingInput {
    /// The question for the client's model.
    prompt: String,
}

#[tool(title = "Ask the model", static = SAMPLE)]
pub(crate) async fn test_sampling(
    input: SamplingInput,
    client: McpClient,
) -> Result<Reply, ToolError> {
    let answer = client.sample("answer", question(&input.prompt)).await?;
    Ok(Reply::text(format!("LLM response: {}", text_of(&answer))))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElicitationInput {
    /// The message above the form.
    message: String,
}

#[tool(title = "Ask the user", static = ELICIT)]
pub(crate) async fn test_elicitation(
    input: ElicitationInput,
    client: McpClient,
) -> Result<Reply, ToolError> {
    let form = json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    });
    let answer = client.elicit("person", &input.message, form).await?;
    Ok(Reply::text(format!("User response: {}", words(&answer))))
}

pub(crate) fn all() -> Result<Vec<ExampleTool>, ToolError> {
    // The suite gives tools with several rounds this common prefix.
    let rounds = |name: &str| format!("test_input_required_result_{name}");
    Ok(vec![
        ExampleTool::new(
            "test_elicitation_sep1034_defaults",
            "Shows a form with defaults.",
            defaults,
        )?,
        ExampleTool::new("test_elicitation_sep1330_enums", "Shows every kind of choice.", choices)?,
        ExampleTool::new(&rounds("elicitation"), "Asks for a name.", name)?,
        ExampleTool::new("test_streaming_elicitation", "Asks for a name.", name)?,
        ExampleTool::new(&rounds("sampling"), "Asks the model for a capital.", capital)?,
        // A client without `sampling` gets the protocol's own error.
        ExampleTool::new("test_missing_capability", "Needs the client's model.", capital)?,
        ExampleTool::new(&rounds("list_roots"), "Asks for the client's roots.", roots)?,
        ExampleTool::new(&rounds("request_state"), "Keeps state between its rounds.", confirmed)?,
        ExampleTool::new(&rounds("tampered_state"), "Keeps signed state.", confirmed)?,
        ExampleTool::new(
            &rounds("multiple_inputs"),
            "Asks three questions at once.",
            three_at_once,
        )?,
        ExampleTool::new(&rounds("multi_round"), "Asks two questions in turn.", two_in_turn)?,
        ExampleTool::new(&rounds("capabilities"), "Asks the user or the model.", user_or_model)?,
    ])
}

async fn defaults(call: Call) -> Result<Reply, ToolError> {
    let states = ["active", "inactive", "pending"];
    let form = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": states, "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
        "required": [],
    });
    let answer = McpClient::from_call(&call)?.elicit("form", "Is this right?", form).await?;
    Ok(Reply::text(format!("Elicitation completed: {}", words(&answer))))
}

async fn choices(call: Call) -> Result<Reply, ToolError> {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    let form = json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        "required": [],
    });
    let answer = McpClient::from_call(&call)?.elicit("form", "Please choose", form).await?;
    Ok(Reply::text(format!("Elicitation completed: {}", words(&answer))))
}

async fn name(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    let answer = client.elicit("user_name", "What is your name?", field("name")).await?;
    Ok(Reply::text(format!("Hello, {}!", value(&answer, "name"))))
}

async fn capital(call: Call) -> Result<Reply, ToolError> {
    let question = question("What is the capital of France?");
    let answer = McpClient::from_call(&call)?.sample("capital_question", question).await?;
    Ok(Reply::text(text_of(&answer)))
}

async fn roots(call: Call) -> Result<Reply, ToolError> {
    let roots = McpClient::from_call(&call)?.roots("client_roots").await?;
    Ok(Reply::text(format!("the client works in {roots}")))
}

async fn three_at_once(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    let name = client.elicit("user_name", "What is your name?", field("name")).await;
    let greeting = client.sample("greeting", question("Generate a greeting")).await;
    let roots = client.roots("client_roots").await;
    // Only now: a `?` after each question would cost a round each.
    let (name, greeting, roots) = (name?, greeting?, roots?);
    Ok(Reply::text(format!("{} {} in {roots}", text_of(&greeting), value(&name, "name"))))
}

async fn two_in_turn(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    let name = client.elicit("step1", "Step 1: What is your name?", field("name")).await?;
    let question = "Step 2: What is your favorite color?";
    let colour = client.elicit("step2", question, field("color")).await?;
    Ok(Reply::text(format!("{} likes {}", value(&name, "name"), value(&colour, "color"))))
}

async fn user_or_model(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    if client.capabilities().elicitation.is_some() {
        return name(call).await;
    }
    let greeting = client.sample("greeting", question("Generate a greeting")).await?;
    Ok(Reply::text(text_of(&greeting)))
}

/// Keeps a count at the client, signed by the server and bound to this call.
async fn confirmed(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    let rounds = client.kept::<usize>().unwrap_or_default();
    client.keep(&(rounds + 1));
    let form =
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    client.elicit("confirm", "Please confirm", form).await?;
    Ok(Reply::text(format!("state-ok after {rounds} rounds")))
}

fn field(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
}

fn question(text: &str) -> CreateMessageRequestParams {
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text)], 100)
}

fn words(answer: &ElicitResult) -> String {
    let content = answer.content.clone().unwrap_or_default();
    format!("action={}, content={content}", json!(answer.action))
}

/// Returns the value of a field; a default when the user declined.
fn value(answer: &ElicitResult, field: &str) -> String {
    let content = answer.content.as_ref().and_then(|content| content.get(field));
    content.and_then(Value::as_str).unwrap_or("unknown").to_owned()
}

/// Returns the text of a model's answer.
fn text_of(answer: &Value) -> String {
    answer.pointer("/content/text").and_then(Value::as_str).unwrap_or_default().to_owned()
}
