//! Stage 1: the name becomes a tool. Another spelling of a known name is mended and reported; anything else gets the
//! nearest names.

use super::{CallState, Inner};
use crate::{ErrorKind, ToolError, nearest::did_you_mean};

pub(super) async fn resolve(gate: &Inner, flight: &mut CallState) -> Result<(), ToolError> {
    if flight.context.lineage.ancestors.len() >= gate.limits.nesting {
        let message = format!(
            "`{}` is called inside {} other calls, one more than may be nested",
            flight.requested, gate.limits.nesting
        );
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("call it from the outside, not from a tool that was called by tools"));
    }
    if let Some(tool) = gate.registry.get(&flight.requested).await {
        flight.tool = Some(tool);
        return Ok(());
    }
    if let Some(known) = gate.registry.same_but_for_spelling(&flight.requested)
        && let Some(tool) = gate.registry.get(&known).await
    {
        flight.repairs.push(format!("read the tool name `{}` as `{known}`", flight.requested));
        flight.tool = Some(tool);
        return Ok(());
    }
    Err(unknown(gate, &flight.requested))
}

fn unknown(gate: &Inner, name: &str) -> ToolError {
    let near = gate.registry.nearest(name);
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    let hint = match did_you_mean(&near) {
        words if words.is_empty() => "list the tools to see the names there are".to_owned(),
        words => words,
    };
    // What the caller wrote is shown back, so it must not fill the screen.
    let shown: String = name.chars().take(80).collect();
    ToolError::not_found(format!("there is no tool `{shown}`")).hint(hint)
}
