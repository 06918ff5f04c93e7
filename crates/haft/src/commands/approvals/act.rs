//! Decides a request and makes its call run: in the process that asked, or here when that process
//! is gone.

use std::{process::ExitCode, sync::Arc};

use haft::host::config::Settings;
use haft_core::{
    ApprovalDecision, ApprovalRequest, ApprovalState, CallClaim, Context, Gate, InboxEntry,
    Outcome, Submission, ToolError, already_settled,
};
use haft_exec::Programs;

use super::ApprovalsCommand;
use crate::{report, stop::Stop, terminal::Label};

impl ApprovalsCommand<'_> {
    /// Decides a request. An approved request that no process has claimed may be approved again,
    /// because its call still has to run.
    pub(super) fn decide(
        &self,
        entry: &InboxEntry,
        state: ApprovalState,
        verdict: ApprovalDecision,
    ) -> Result<(), ToolError> {
        let record = &entry.record;
        let both = (record.state, state);
        if both == (ApprovalState::Approved, ApprovalState::Approved) && !record.is_claimed {
            return Ok(());
        }
        // An expired request is reported as expired.
        if record.state != ApprovalState::Pending {
            return Err(already_settled(record));
        }
        let decided = self.inbox.decide(&record.request.id, state, verdict);
        self.cli.runtime.block_on(decided).map(|_| ())
    }

    /// Waits until the process that asked has claimed the call. Runs the call here if that process
    /// is gone.
    pub(super) fn run_or_wait(&self, entry: &InboxEntry) -> Result<ExitCode, Stop> {
        let id = &entry.record.request.id;
        match self.cli.runtime.block_on(self.inbox.wait_for_claim(id))? {
            CallClaim::Taken => {
                self.report(entry, "approved", "the process that asked runs the call")
            }
            CallClaim::Free => {
                let message = "the process that asked is gone; running the call here";
                self.cli.terminal.tell(Label::Note, message);
                let outcome = self.run(entry)?;
                Ok(report::outcome(self.cli.terminal, self.globals.format, &outcome)?)
            }
        }
    }

    /// Runs the recorded call, once.
    pub(super) fn run(&self, entry: &InboxEntry) -> Result<Outcome, ToolError> {
        let gate = self.gate_of(entry)?;
        let id = entry.record.request.id.clone();
        let context = Context::new("approvals");
        let stop = context.cancel.clone();
        let work = async {
            let mut work = std::pin::pin!(gate.resume(&id, context));
            tokio::select! {
                done = &mut work => done,
                // The cancelled call ends, and its result is recorded.
                _ = tokio::signal::ctrl_c() => {
                    stop.cancel();
                    work.await
                }
            }
        };
        let done = self.cli.runtime.block_on(work);
        Programs::end_everything();
        match done? {
            Submission::Done(outcome) => Ok(*outcome),
            Submission::Pending(request) => Err(asked_again(&id, &request)),
        }
    }

    /// Builds a gate for the workspace of the recorded call, with this store.
    fn gate_of(&self, entry: &InboxEntry) -> Result<Gate, ToolError> {
        let mut globals = self.globals.clone();
        globals.choices.workspace = Some(entry.workspace.clone());
        let mut settings = Settings::load(&globals.choices, &self.cli.environment.host)?;
        settings.directory.clone_from(&settings.workspace);
        settings.store.address.clone_from(&self.settings.store.address);
        // Approvals that the call needs while it runs are asked here.
        self.cli.gate(settings, Arc::new(self.cli.prompt()))
    }
}

/// The call would now access something other than the user approved.
fn asked_again(id: &str, request: &ApprovalRequest) -> ToolError {
    let message = format!(
        "the call of request `{id}` did not run: its accesses differ from the approved ones ({})",
        request.confirmation.message
    );
    let next = &request.id;
    ToolError::conflict(message).hint(format!(
        "the new request is `{next}`: inspect it with `haft approvals show {next}`, then approve \
         or deny it"
    ))
}
