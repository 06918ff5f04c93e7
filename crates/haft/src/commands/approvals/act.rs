//! Decides, and sees to it that the call runs: where it was asked for, or here when nobody is there any more.

use std::{process::ExitCode, sync::Arc};

use haft::host::config::Settings;
use haft_core::{
    ApprovalDecision, ApprovalRequest, ApprovalState, CallClaim, Context, Gate, InboxEntry,
    Outcome, Submission, ToolError, already_settled,
};
use haft_exec::Programs;

use super::Desk;
use crate::{report, stop::Stop, terminal::Label};

impl Desk<'_> {
    /// Settles a request. One that was approved and not taken up yet may be approved again: its call still has to run.
    pub(super) fn decide(
        &self,
        standing: &InboxEntry,
        state: ApprovalState,
        verdict: ApprovalDecision,
    ) -> Result<(), ToolError> {
        let record = &standing.record;
        let both = (record.state, state);
        if both == (ApprovalState::Approved, ApprovalState::Approved) && !record.is_claimed {
            return Ok(());
        }
        // Pending to the eye is what counts: a lapsed one is told as that.
        if record.state != ApprovalState::Pending {
            return Err(already_settled(record));
        }
        let decided = self.inbox.decide(&record.request.id, state, verdict);
        self.bench.runtime.block_on(decided).map(|_| ())
    }

    /// Waits until the asker has taken the call up; runs it when there is no asker.
    pub(super) fn see_it_run(&self, standing: &InboxEntry) -> Result<ExitCode, Stop> {
        let id = &standing.record.request.id;
        match self.bench.runtime.block_on(self.inbox.wait_for_claim(id))? {
            CallClaim::Taken => {
                self.say(standing, "approved", "the process that asked runs the call")
            }
            CallClaim::Free => {
                let message = "the process that asked is gone; its call runs here";
                self.bench.terminal.tell(Label::Note, message);
                let outcome = self.run(standing)?;
                Ok(report::outcome(self.bench.terminal, self.globals.format, &outcome)?)
            }
        }
    }

    /// Runs the recorded call, once.
    pub(super) fn run(&self, standing: &InboxEntry) -> Result<Outcome, ToolError> {
        let gate = self.gate_of(standing)?;
        let id = standing.record.request.id.clone();
        let context = Context::new("approvals");
        let stop = context.cancel.clone();
        let work = async {
            let mut work = std::pin::pin!(gate.resume(&id, context));
            tokio::select! {
                done = &mut work => done,
                // It stops, and what became of it is recorded.
                _ = tokio::signal::ctrl_c() => {
                    stop.cancel();
                    work.await
                }
            }
        };
        let done = self.bench.runtime.block_on(work);
        Programs::end_everything();
        match done? {
            Submission::Done(outcome) => Ok(*outcome),
            Submission::Pending(request) => Err(asked_again(&id, &request)),
        }
    }

    /// A gate for where the call was recorded, with this store.
    fn gate_of(&self, standing: &InboxEntry) -> Result<Gate, ToolError> {
        let mut globals = self.globals.clone();
        globals.choices.workspace = Some(standing.workspace.clone());
        let mut settings = Settings::load(&globals.choices, &self.bench.environment.host)?;
        settings.directory.clone_from(&settings.workspace);
        settings.store.address.clone_from(&self.settings.store.address);
        // What the call itself may ask for while it runs is asked here.
        self.bench.gate(settings, Arc::new(self.bench.prompt()))
    }
}

/// The person has approved something else than what the call would touch now.
fn asked_again(id: &str, request: &ApprovalRequest) -> ToolError {
    let message = format!(
        "the call of request `{id}` did not run: it would touch something else than was approved ({})",
        request.confirmation.message
    );
    let next = &request.id;
    ToolError::conflict(message).hint(format!(
        "it is asked about again as `{next}`: see it with `haft approvals show {next}`, then approve or deny it"
    ))
}
