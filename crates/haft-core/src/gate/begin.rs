//! Before a call runs that may change something, an entry says that it begins: a call that is killed half-way is then not
//! missing from the ledger. Read-only calls are recorded at their end only.

use serde_json::Value;

use super::{CallState, Halt, Inner, record};
use crate::{ErrorKind, LedgerEntry, ToolError};

pub(super) async fn begin(gate: &Inner, flight: &mut CallState) -> Result<(), Halt> {
    let is_read_only = {
        let effect = flight.tool().spec().effect;
        LedgerEntry::reads_only(effect, &flight.judged)
            && LedgerEntry::reads_only(effect, &flight.accesses)
    };
    if is_read_only && flight.approval.is_none() {
        return Ok(());
    }
    // Boxed: read-only calls would carry room for it.
    match Box::pin(commit(gate, flight)).await {
        // Nothing is lost with a read-only call; its outcome says that it is not recorded.
        Err(Halt::Failed(error)) if is_read_only && error.kind() == ErrorKind::Unavailable => {
            Ok(())
        }
        other => other,
    }
}

async fn commit(gate: &Inner, flight: &mut CallState) -> Result<(), Halt> {
    let entry = record::entry_of(gate, flight, Value::clone(&flight.input));
    let claim = flight.approval.as_ref().and_then(|approval| approval.claim.as_deref());
    match gate.ledger.begin(entry, claim).await {
        Ok(seq) => flight.begun_seq = seq,
        Err(error) if error.kind() == ErrorKind::Conflict => return Err(Halt::TakenUp(error)),
        Err(error) => return Err(unrecorded(flight, &error).into()),
    }
    match &flight.approval {
        Some(approval) => Ok(gate.approvals.mark_started(&approval.request.id).await?),
        None => Ok(()),
    }
}

fn unrecorded(flight: &CallState, error: &ToolError) -> ToolError {
    let name = flight.name();
    let message = format!("`{name}` did not run: its beginning cannot be recorded: {error}");
    ToolError::unavailable(message).hint(format!(
        "{}; free disk space if there is none, and check the store with `haft store check`",
        error.next_step()
    ))
}
