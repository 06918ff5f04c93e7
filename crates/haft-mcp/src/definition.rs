//! A tool as the protocol describes it, made from its spec.

use haft_core::{Effect, ToolSpec};
use rmcp::model::{Tool, ToolAnnotations};

use crate::stdio::escape;

/// `structured` says whether results carry typed data, and so whether its schema is announced.
pub(crate) fn tool(spec: &ToolSpec, structured: bool) -> Tool {
    let input = spec.input.announced().clone();
    let mut tool = Tool::new(spec.name.clone(), spec.description.clone(), input)
        .with_title(spec.title.as_ref())
        .with_annotations(annotations(spec));
    if structured && let Some(output) = &spec.output {
        tool = tool.with_raw_output_schema(output.beside_content().clone());
    }
    tool
}

/// The same as JSON, its schemas as they are written down. A client waits for this at every start.
pub(crate) fn put(line: &mut Vec<u8>, spec: &ToolSpec, structured: bool) {
    put_text(line, b"{\"name\":", &spec.name);
    put_text(line, b",\"title\":", &spec.title);
    put_text(line, b",\"description\":", &spec.description);
    line.extend_from_slice(b",\"inputSchema\":");
    line.extend_from_slice(spec.input.announced_text().as_bytes());
    if structured && let Some(output) = &spec.output {
        line.extend_from_slice(b",\"outputSchema\":");
        line.extend_from_slice(output.beside_content_text().as_bytes());
    }
    line.extend_from_slice(b",\"annotations\":");
    // Maps with keys that are no text are all that cannot be written.
    let _ = serde_json::to_writer(&mut *line, &annotations(spec));
    line.push(b'}');
}

fn put_text(line: &mut Vec<u8>, name: &[u8], text: &str) {
    line.extend_from_slice(name);
    escape::put(line, text);
}

/// Hints, as the protocol calls them: the gate does not rely on anybody heeding them.
fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    ToolAnnotations::with_title(spec.title.as_ref())
        .read_only(spec.effect == Effect::Read)
        .destructive(matches!(spec.effect, Effect::Execute | Effect::Destructive))
        .idempotent(spec.idempotent)
        .open_world(spec.open_world)
}
