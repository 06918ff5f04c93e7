//! Tools that do not ask the client: with text, images, files, errors, log lines and progress. They
//! are created at run time, as by a program that does not know its tools at compile time. Two tools
//! in `client_requests.rs` are written as functions.

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

type ToolFn = Box<dyn Fn(Call) -> BoxFuture<'static, Result<Reply, ToolError>> + Send + Sync>;

/// A tool made of a name, a description and a closure.
pub(crate) struct ExampleTool {
    spec: ToolSpec,
    run: ToolFn,
}

impl ExampleTool {
    /// Creates a tool without input.
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
        // Without permissions: such tools run without approval in every mode but `none`.
        let spec = spec.needs([Power::Free]);
        Ok(Self { spec, run: Box::new(move |call| Box::pin(run(call))) })
    }

    fn taking(mut self, input: Value) -> Result<Self, ToolError> {
        self.spec.input = Schema::from_value(input)?;
        Ok(self)
    }
}

impl Tool for ExampleTool {
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
    cancelled: &Arc<CancelledCalls>,
) -> Result<Vec<ExampleTool>, ToolError> {
    let mut tools = contents()?;
    tools.extend(schemas()?);
    tools.extend(while_they_run(cancelled)?);
    tools.push(changing_the_list(registry.clone())?);
    Ok(tools)
}

/// Tools with each kind of content. An attachment becomes a block of the matching kind.
fn contents() -> Result<Vec<ExampleTool>, ToolError> {
    let picture = || attachment("image/png", "dot.png", RED_DOT);
    let sound = || attachment("audio/wav", "silence.wav", SILENCE);
    // An attachment whose name is a URI keeps it.
    let text = || attachment("text/plain", "test://embedded-resource", TEXT);
    let data = || attachment("application/json", "test://mixed-content-resource", DATA);
    let with =
        |content: &str, attachments: Vec<Attachment>| Reply { attachments, ..Reply::text(content) };
    Ok(vec![
        ExampleTool::new("test_simple_text", "Returns text.", move |_| async {
            Ok(Reply::text("This is a simple text response for testing."))
        })?,
        ExampleTool::new("test_image_content", "Returns an image.", move |_| async move {
            Ok(with("", vec![picture()]))
        })?,
        ExampleTool::new("test_audio_content", "Returns a sound.", move |_| async move {
            Ok(with("", vec![sound()]))
        })?,
        ExampleTool::new("test_embedded_resource", "Returns a file.", move |_| async move {
            Ok(with("", vec![text()]))
        })?,
        ExampleTool::new(
            "test_multiple_content_types",
            "Returns several kinds of content.",
            move |_| async move { Ok(with("Multiple content types test:", vec![picture(), data()])) },
        )?,
        ExampleTool::new("test_error_handling", "Always fails.", |_| async {
            // The kind is for programs, the message names the problem, the hint is the next step.
            Err(ToolError::failed("this tool intentionally returns an error for testing")
                .hint("call another tool"))
        })?,
    ])
}

/// Tools whose schemas are passed on unchanged.
fn schemas() -> Result<Vec<ExampleTool>, ToolError> {
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
    // From 2026-07-28 on clients repeat such a parameter in a header, so that proxies can route by
    // it.
    let region = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    });
    let echo = |call: Call| async move { Ok(Reply::text(call.raw_input().to_string())) };
    Ok(vec![
        ExampleTool::new("json_schema_2020_12_tool", "Takes a contact.", echo)?.taking(contact)?,
        ExampleTool::new("test_custom_header", "Takes a region.", echo)?.taking(region)?,
    ])
}

/// Tools that send something to the client before the answer.
fn while_they_run(cancelled: &Arc<CancelledCalls>) -> Result<Vec<ExampleTool>, ToolError> {
    let cancelled = cancelled.clone();
    Ok(vec![
        ExampleTool::new("test_tool_with_logging", "Writes to the client's log.", log_three_lines)?,
        ExampleTool::new("test_logging_tool", "Writes to the client's log.", log_three_lines)?,
        ExampleTool::new("test_tool_with_progress", "Reports its progress.", report_progress)?,
        ExampleTool::new("test_reconnection", "Disconnects and finishes anyway.", disconnect)?,
        ExampleTool::new("test_wait", "Waits until it is cancelled.", move |call| {
            let cancelled = cancelled.clone();
            async move {
                // A call is cancelled by dropping its future; a guard runs code then.
                let _guard = CancelGuard(cancelled);
                Progress::from_call(&call)?.step(0.0, None, "waiting");
                std::future::pending().await
            }
        })?,
    ])
}

async fn report_progress(call: Call) -> Result<Reply, ToolError> {
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
    Ok(Reply::text("finished without a connection"))
}

async fn log_three_lines(call: Call) -> Result<Reply, ToolError> {
    let client = McpClient::from_call(&call)?;
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        client.log(LoggingLevel::Info, "example", json!(line)).await;
        pause().await;
    }
    Ok(Reply::text("logged, if the client subscribed to log messages"))
}

/// A tool that changes the registry. Subscribed clients are notified of every change.
fn changing_the_list(registry: Registry) -> Result<ExampleTool, ToolError> {
    let description = "Adds a tool, or removes it again.";
    ExampleTool::new("test_trigger_tool_change", description, move |_| {
        let registry = registry.clone();
        async move {
            if registry.unregister("added_tool") {
                return Ok(Reply::text("`added_tool` was removed"));
            }
            let added = ExampleTool::new("added_tool", "Was added by another tool.", |_| async {
                Ok(Reply::text("here"))
            })?;
            registry.register(added).map_err(|error| ToolError::conflict(error.to_string()))?;
            Ok(Reply::text("`added_tool` was added"))
        }
    })
}

/// The number of cancelled calls of `test_wait`, which is the resource that can be watched.
#[derive(Default)]
pub(crate) struct CancelledCalls {
    count: AtomicUsize,
    server: OnceLock<Server>,
}

impl CancelledCalls {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the server whose clients are notified when the count changes.
    pub(crate) fn set_server(&self, server: Server) {
        let _ = self.server.set(server);
    }
}

struct CancelGuard(Arc<CancelledCalls>);

impl Drop for CancelGuard {
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

/// Waits long enough for a client to see the order of events.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
