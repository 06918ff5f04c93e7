//! Stage 4: the tool says, from its input alone, what this call would touch; paths are brought into the form that
//! rules are written for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Flight, Inner};
use crate::{Access, ToolError};

pub(super) fn access(gate: &Inner, flight: &mut Flight) -> Result<(), ToolError> {
    let tool = flight.tool();
    let judged = catch_unwind(AssertUnwindSafe(|| tool.access(&flight.input)));
    let accesses = judged.map_err(|_| {
        ToolError::internal(format!("`{}` panicked while it judged its input", tool.name()))
    })??;
    flight.accesses = accesses.into_iter().map(|access| resolved(gate, access)).collect();
    flight.accesses.dedup();
    Ok(())
}

fn resolved(gate: &Inner, access: Access) -> Access {
    match access {
        Access::Read(path) => Access::Read(gate.paths.resolve(&path)),
        Access::Write(path) => Access::Write(gate.paths.resolve(&path)),
        other => other,
    }
}
