//! Stage 1: finds the tool by its name. Another spelling of a known name is repaired and reported;
//! an unknown name fails with the nearest names.

use super::{CallState, GateInner};
use crate::{ErrorKind, ToolError, nearest::did_you_mean};

pub(super) async fn resolve(gate: &GateInner, call_state: &mut CallState) -> Result<(), ToolError> {
    if call_state.context.lineage.ancestors.len() >= gate.limits.nesting {
        let message = format!(
            "`{}` is called inside {} other calls, one more than may be nested",
            call_state.requested, gate.limits.nesting
        );
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("call it directly, not from a tool that other tools called"));
    }
    if let Some(tool) = gate.registry.get(&call_state.requested).await {
        call_state.tool = Some(tool);
        return Ok(());
    }
    if let Some(known) = gate.registry.same_but_for_spelling(&call_state.requested)
        && let Some(tool) = gate.registry.get(&known).await
    {
        call_state
            .repairs
            .push(format!("read the tool name `{}` as `{known}`", call_state.requested));
        call_state.tool = Some(tool);
        return Ok(());
    }
    Err(unknown(gate, &call_state.requested))
}

fn unknown(gate: &GateInner, name: &str) -> ToolError {
    let near = gate.registry.nearest(name);
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    let hint = match did_you_mean(&near) {
        words if words.is_empty() => "list the tools to see all names".to_owned(),
        words => words,
    };
    // The message contains the caller's text, which may be very long.
    let shown: String = name.chars().take(80).collect();
    ToolError::not_found(format!("unknown tool `{shown}`")).hint(hint)
}
