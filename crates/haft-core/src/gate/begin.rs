//! Records the start of a call that may change something, so that a call that is killed half-way is
//! not missing from the ledger. Read-only calls are recorded only at their end.

use serde_json::Value;

use super::{CallState, GateInner, Halt, record};
use crate::{ErrorKind, LedgerEntry, ToolError};

pub(super) async fn begin(gate: &GateInner, call_state: &mut CallState) -> Result<(), Halt> {
    let is_read_only = {
        let effect = call_state.tool().spec().effect;
        LedgerEntry::reads_only(effect, &call_state.judged)
            && LedgerEntry::reads_only(effect, &call_state.accesses)
    };
    if is_read_only && call_state.approval.is_none() {
        return Ok(());
    }
    // Boxed: otherwise the futures of read-only calls would reserve space for it.
    match Box::pin(commit(gate, call_state)).await {
        // A read-only call runs all the same; its outcome says that it is not recorded.
        Err(Halt::Failed(error)) if is_read_only && error.kind() == ErrorKind::Unavailable => {
            Ok(())
        }
        other => other,
    }
}

async fn commit(gate: &GateInner, call_state: &mut CallState) -> Result<(), Halt> {
    let entry = record::entry_of(gate, call_state, Value::clone(&call_state.input));
    let claim = call_state.approval.as_ref().and_then(|approval| approval.claim.as_deref());
    match gate.ledger.begin(entry, claim).await {
        Ok(seq) => call_state.begun_seq = seq,
        Err(error) if error.kind() == ErrorKind::Conflict => {
            return Err(Halt::ClaimedElsewhere(error));
        }
        Err(error) => return Err(unrecorded(call_state, &error).into()),
    }
    match &call_state.approval {
        Some(approval) => Ok(gate.approvals.mark_started(&approval.request.id).await?),
        None => Ok(()),
    }
}

fn unrecorded(call_state: &CallState, error: &ToolError) -> ToolError {
    let name = call_state.name();
    let message = format!("`{name}` did not run: its start cannot be recorded: {error}");
    ToolError::unavailable(message).hint(format!(
        "{}; free disk space if there is none, and check the store with `haft store check`",
        error.next_step()
    ))
}
