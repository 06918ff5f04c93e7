//! Runs the read-only calls of a recorded session compare and compares the results. Calls that may
//! change something or need approval are not run. The new calls are not recorded, because they
//! would become part of the session.

use std::{process::ExitCode, sync::Arc};

use haft::host::config::Settings;
use haft_core::{CallRequest, Context, Gate, MemoryLedger, Outcome, policy::Action};
use haft_store::{Recording, RecordingCall};
use serde_json::{Value, json};

use super::short;
use crate::{commands::Cli, globals::Format, report, safe_text::shown_in_line, stop::Stop};

/// Maximum lines of a diff.
const MAX_DIFF_LINES: usize = 60;

/// The result of running a call compare.
enum RerunResult {
    Same,
    /// The diff.
    Different(String),
    /// The reason.
    NotRun(String),
}

impl Cli<'_> {
    pub(super) fn check_again(
        &self,
        settings: Settings,
        recording: &Recording,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let ledger = Arc::new(MemoryLedger::default());
        let gate = self.host(settings)?.gate().ledger(ledger).build();
        let direct = recording.calls().iter().filter(|call| call.entry.parent.is_none());
        let mut comparisons = Vec::new();
        for call in direct {
            let comparison = self.runtime.block_on(compare(&gate, recording, call));
            comparisons.push((call, comparison));
        }
        let differ = comparisons
            .iter()
            .any(|(_, comparison)| matches!(comparison, RerunResult::Different(_)));
        match format {
            Format::Json => report::json(self.terminal, &as_json(&comparisons))?,
            Format::Text => self.terminal.print(&as_text(&comparisons))?,
        }
        Ok(if differ { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

async fn compare(gate: &Gate, recording: &Recording, call: &RecordingCall) -> RerunResult {
    let entry = &call.entry;
    if !entry.is_read_only() {
        return RerunResult::NotRun("it may change something".to_owned());
    }
    let then = match recording.outcome(call).await {
        Ok(outcome) => outcome,
        Err(error) => return RerunResult::NotRun(error.message().to_owned()),
    };
    if then.metadata.contains_key("repeats") {
        return RerunResult::NotRun("its result was a pointer to an earlier result".to_owned());
    }
    match make(gate, call).await {
        Ok(now) => {
            let (then, now) = (comparable(&then), comparable(&now));
            let name = format!("{}/{}", call.seq, entry.tool);
            let difference = haft_tools::difference(&name, &then, &now, MAX_DIFF_LINES);
            if then == now { RerunResult::Same } else { RerunResult::Different(difference) }
        }
        Err(why) => RerunResult::NotRun(why),
    }
}

async fn make(gate: &Gate, RecordingCall { entry, .. }: &RecordingCall) -> Result<Outcome, String> {
    let mut context = Context::new(&entry.session);
    context.agents.clone_from(&entry.agents);
    let request = CallRequest::new(entry.tool.clone(), entry.input.clone(), context);
    // A call that fails before the policy check fails with the same error when it runs.
    if let Ok(explained) = gate.explain(request.clone()).await
        && explained.decision.action != Action::Allow
    {
        return Err("it would need approval today or be denied".to_owned());
    }
    Ok(gate.call(request).await)
}

/// Returns the text for the model, without the id of a long output, which differs every time.
fn comparable(outcome: &Outcome) -> String {
    match &outcome.output_id {
        Some(id) => outcome.content.replace(id.as_str(), "OUTPUT"),
        None => outcome.content.clone(),
    }
}

fn as_json(comparisons: &[(&RecordingCall, RerunResult)]) -> Value {
    let each = |(call, comparison): &(&RecordingCall, RerunResult)| {
        let mut json = json!({"seq": call.seq, "tool": call.entry.tool, "input": call.entry.input});
        let (word, more) = match comparison {
            RerunResult::Same => ("same", None),
            RerunResult::Different(diff) => ("different", Some(("diff", diff))),
            RerunResult::NotRun(why) => ("not_run", Some(("why", why))),
        };
        json["now"] = word.into();
        if let Some((name, text)) = more {
            json[name] = text.as_str().into();
        }
        json
    };
    let differ =
        comparisons.iter().any(|(_, comparison)| matches!(comparison, RerunResult::Different(_)));
    json!({"differs": differ, "calls": comparisons.iter().map(each).collect::<Vec<_>>()})
}

fn as_text(comparisons: &[(&RecordingCall, RerunResult)]) -> String {
    let (mut lines, mut same, mut different, mut not_run) = (Vec::new(), 0, 0, 0);
    for (call, comparison) in comparisons {
        let (tool, input) = (shown_in_line(&call.entry.tool), short(&call.entry.input));
        let name = format!("{:>5}  {tool}  {input}", call.seq);
        match comparison {
            RerunResult::Same => same += 1,
            RerunResult::Different(diff) => {
                different += 1;
                lines.push(format!("{name}  differs now\n{}", diff.trim_end()));
            }
            RerunResult::NotRun(why) => {
                not_run += 1;
                lines.push(format!("{name}  not run: {}", shown_in_line(why)));
            }
        }
    }
    lines.push(format!("{same} unchanged, {different} differ, {not_run} not run"));
    lines.join("\n")
}
