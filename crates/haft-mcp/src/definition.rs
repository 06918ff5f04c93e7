//! A tool as the protocol describes it, made from its spec.

use haft_core::{Effect, ToolSpec};
use rmcp::model::{Tool, ToolAnnotations};

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

/// Hints, as the protocol calls them: the gate does not rely on anybody heeding them.
fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    ToolAnnotations::with_title(spec.title.as_ref())
        .read_only(spec.effect == Effect::Read)
        .destructive(matches!(spec.effect, Effect::Execute | Effect::Destructive))
        .idempotent(spec.idempotent)
        .open_world(spec.open_world)
}
