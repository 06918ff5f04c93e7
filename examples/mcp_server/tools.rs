//! Tools that answer by themselves: with text, pictures, files, errors, log lines and progress. They are made at run time,
//! which is what a program does whose tools are not known when it is compiled; `asking.rs` has two written as functions.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Access, Attachment, BoxFuture, Call, Capability, Power, Progress, Registry, Reply, Schema,
    Tool, ToolError, ToolSpec,
    mcp::{McpClient, Server, model::LoggingLevel},
};
use serde_json::{Value, json};

use crate::{RED_DOT, SILENCE, resources::WATCHED};

/// Attachments are base64.
const TEXT: &str = "VGhpcyBpcyBhbiBlbWJlZGRlZCByZXNvdXJjZSBjb250ZW50Lg==";
const DATA: &str = "eyJ0ZXN0IjoiZGF0YSIsInZhbHVlIjoxMjN9";

type Run = Box<dyn Fn(Call) -> BoxFuture<'static, Result<Reply, ToolError>> + Send + Sync>;

/// A tool out of a name, a description and a closure.
pub(crate) struct Fixture {
    spec: ToolSpec,
    run: Run,
}

impl Fixture {
    /// One that takes nothing.
    pub(crate) fn new<Fut>(
        name: &str,
        description: &str,
        run: impl Fn(Call) -> Fut + Send + Sync + 'static,
    ) -> Result<Self, ToolError>
    where
        Fut: Future<Output = Result<Reply, ToolError>> + Send + 'static,
    {
        let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let input = Schema::from_value(nothing)?;
        let spec = ToolSpec::declared("this example", name, description, input);
        // Without powers: such tools run unasked in every mode but `none`.
        let spec = spec.needs([Power::Free]);
        Ok(Self { spec, run: Box::new(move |call| Box::pin(run(call))) })
    }

    fn taking(mut self, input: Value) -> Result<Self, ToolError> {
        self.spec.input = Schema::from_value(input)?;
        Ok(self)
    }
}

impl Tool for Fixture {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        (self.run)(call)
    }
}

pub(crate) fn all(
    registry: &Registry,
    called_off: &Arc<CalledOff>,
) -> Result<Vec<Fixture>, ToolError> {
    let mut tools = contents()?;
    tools.extend(schemas()?);
    tools.extend(while_they_run(called_off)?);
    tools.push(changing_the_list(registry.clone())?);
    Ok(tools)
}

/// What an answer may consist of. An attachment becomes the block that the protocol has for its sort.
fn contents() -> Result<Vec<Fixture>, ToolError> {
    let picture = || attachment("image/png", "dot.png", RED_DOT);
    let sound = || attachment("audio/wav", "silence.wav", SILENCE);
    // An attachment whose name is an address keeps it.
    let text = || attachment("text/plain", "test://embedded-resource", TEXT);
    let data = || attachment("application/json", "test://mixed-content-resource", DATA);
    let with =
        |content: &str, attachments: Vec<Attachment>| Reply { attachments, ..Reply::text(content) };
    Ok(vec![
        Fixture::new("test_simple_text", "Answers with text.", move |_| async {
            Ok(Reply::text("This is a simple text response for testing."))
        })?,
        Fixture::new("test_image_content", "Answers with a picture.", move |_| async move {
            Ok(with("", vec![picture()]))
        })?,
        Fixture::new("test_audio_content", "Answers with a sound.", move |_| async move {
            Ok(with("", vec![sound()]))
        })?,
        Fixture::new("test_embedded_resource", "Answers with a file.", move |_| async move {
            Ok(with("", vec![text()]))
        })?,
        Fixture::new(
            "test_multiple_content_types",
            "Answers with several things at once.",
            move |_| async move { Ok(with("Multiple content types test:", vec![picture(), data()])) },
        )?,
        Fixture::new("test_error_handling", "Always fails.", |_| async {
            // The kind is for programs, the message names the thing, the hint is what to do about it.
            Err(ToolError::failed("this tool intentionally returns an error for testing")
                .hint("call another tool"))
        })?,
    ])
}

/// Schemas are handed on as they are written.
fn schemas() -> Result<Vec<Fixture>, ToolError> {
    let contact = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    // From 2026-07-28 clients repeat such a parameter in a header, so that proxies can route by it.
    let region = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    });
    let echo = |call: Call| async move { Ok(Reply::text(call.raw_input().to_string())) };
    Ok(vec![
        Fixture::new("json_schema_2020_12_tool", "Takes a contact.", echo)?.taking(contact)?,
        Fixture::new("test_custom_header", "Takes a region.", echo)?.taking(region)?,
    ])
}

/// What a client hears before the answer.
fn while_they_run(called_off: &Arc<CalledOff>) -> Result<Vec<Fixture>, ToolError> {
    let called_off = called_off.clone();
    Ok(vec![
        Fixture::new("test_tool_with_logging", "Writes to the client's log.", log_three_lines)?,
        Fixture::new("test_logging_tool", "Writes to the client's log.", log_three_lines)?,
        Fixture::new("test_tool_with_progress", "Tells how far it has come.", tell_progress)?,
        Fixture::new("test_reconnection", "Hangs up and finishes all the same.", disconnect)?,
        Fixture::new("test_wait", "Waits until it is called off.", move |call| {
            let called_off = called_off.clone();
            async move {
                // Dropping the future is how a call ends early; whatever must happen then belongs into a guard.
                let _guard = Guard(called_off);
                Progress::from_call(&call)?.step(0.0, None, "waiting");
                std::future::pending().await
            }
        })?,
    ])
}

async fn tell_progress(call: Call) -> Result<Reply, ToolError> {
    let progress = Progress::from_call(&call)?;
    for done in [0.0, 50.0, 100.0] {
        progress.step(done, Some(100.0), "working");
        pause().await;
    }
    Ok(Reply::text("done, in three steps"))
}

async fn disconnect(call: Call) -> Result<Reply, ToolError> {
    McpClient::from_call(&call)?.disconnect();
    pause().await;
    Ok(Reply::text("finished while nobody listened"))
}

async fn log_three_lines(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        client.log(LoggingLevel::Info, "example", json!(line)).await;
        pause().await;
    }
    Ok(Reply::text("logged, if the client wanted to hear it"))
}

/// Clients that listen are told of every change of the registry.
fn changing_the_list(registry: Registry) -> Result<Fixture, ToolError> {
    let description = "Adds a tool, or takes it away again.";
    Fixture::new("test_trigger_tool_change", description, move |_| {
        let registry = registry.clone();
        async move {
            if registry.unregister("added_tool") {
                return Ok(Reply::text("`added_tool` is gone"));
            }
            let added = Fixture::new("added_tool", "Was added by another tool.", |_| async {
                Ok(Reply::text("here"))
            })?;
            registry.register(added).map_err(|error| ToolError::conflict(error.to_string()))?;
            Ok(Reply::text("`added_tool` is there"))
        }
    })
}

/// How many calls of `test_wait` were called off; the resource that can be watched.
#[derive(Default)]
pub(crate) struct CalledOff {
    count: AtomicUsize,
    server: OnceLock<Server>,
}

impl CalledOff {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whose clients are told when the count changes.
    pub(crate) fn tell(&self, server: Server) {
        let _ = self.server.set(server);
    }
}

struct Guard(Arc<CalledOff>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        if let Some(server) = self.0.server.get() {
            server.resource_changed(WATCHED);
        }
    }
}

fn attachment(mime: &str, name: &str, data: &str) -> Attachment {
    Attachment { mime: mime.to_owned(), name: name.to_owned(), data: data.to_owned() }
}

/// Long enough for a client to see that things come one after the other.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
