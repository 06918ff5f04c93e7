//! The looks of a recorded session, made again today. What may change something, or would be asked for, is not run; what is run
//! is recorded nowhere, since it would become part of the recording.

use std::{process::ExitCode, sync::Arc};

use haft::host::config::Settings;
use haft_core::{CallRequest, Context, Gate, MemoryLedger, Outcome, policy::Action};
use haft_store::{Recording, RecordingCall};
use serde_json::{Value, json};

use super::short;
use crate::{commands::Cli, globals::Format, report, safe_text::shown_in_line, stop::Stop};

/// More of a difference is not shown.
const MOST_LINES: usize = 60;

/// What became of one call.
enum Again {
    Same,
    /// The difference.
    Different(String),
    /// Why not.
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
        let mut ends = Vec::new();
        for call in direct {
            let end = self.runtime.block_on(again(&gate, recording, call));
            ends.push((call, end));
        }
        let differ = ends.iter().any(|(_, end)| matches!(end, Again::Different(_)));
        match format {
            Format::Json => report::json(self.terminal, &as_json(&ends))?,
            Format::Text => self.terminal.print(&as_text(&ends))?,
        }
        Ok(if differ { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

async fn again(gate: &Gate, recording: &Recording, call: &RecordingCall) -> Again {
    let entry = &call.entry;
    if !entry.is_read_only() {
        return Again::NotRun("it may change something".to_owned());
    }
    let then = match recording.outcome(call).await {
        Ok(outcome) => outcome,
        Err(error) => return Again::NotRun(error.message().to_owned()),
    };
    if then.metadata.contains_key("repeats") {
        return Again::NotRun("it pointed at an earlier result".to_owned());
    }
    match make(gate, call).await {
        Ok(now) => {
            let (then, now) = (comparable(&then), comparable(&now));
            let name = format!("{}/{}", call.seq, entry.tool);
            let difference = haft_tools::difference(&name, &then, &now, MOST_LINES);
            if then == now { Again::Same } else { Again::Different(difference) }
        }
        Err(why) => Again::NotRun(why),
    }
}

async fn make(gate: &Gate, RecordingCall { entry, .. }: &RecordingCall) -> Result<Outcome, String> {
    let mut context = Context::new(&entry.session);
    context.agents.clone_from(&entry.agents);
    let request = CallRequest::new(entry.tool.clone(), entry.input.clone(), context);
    // A call that fails before it is judged fails in the same words when it is made.
    if let Ok(explained) = gate.explain(request.clone()).await
        && explained.decision.action != Action::Allow
    {
        return Err("it would not be allowed unasked today".to_owned());
    }
    Ok(gate.call(request).await)
}

/// What a model reads; the id of a long text is another one every time.
fn comparable(outcome: &Outcome) -> String {
    match &outcome.output_id {
        Some(id) => outcome.content.replace(id.as_str(), "OUTPUT"),
        None => outcome.content.clone(),
    }
}

fn as_json(ends: &[(&RecordingCall, Again)]) -> Value {
    let each = |(call, end): &(&RecordingCall, Again)| {
        let mut told = json!({"seq": call.seq, "tool": call.entry.tool, "input": call.entry.input});
        let (word, more) = match end {
            Again::Same => ("same", None),
            Again::Different(diff) => ("different", Some(("diff", diff))),
            Again::NotRun(why) => ("not_run", Some(("why", why))),
        };
        told["now"] = word.into();
        if let Some((name, text)) = more {
            told[name] = text.as_str().into();
        }
        told
    };
    let differ = ends.iter().any(|(_, end)| matches!(end, Again::Different(_)));
    json!({"differs": differ, "calls": ends.iter().map(each).collect::<Vec<_>>()})
}

fn as_text(ends: &[(&RecordingCall, Again)]) -> String {
    let (mut lines, mut same, mut different, mut not_run) = (Vec::new(), 0, 0, 0);
    for (call, end) in ends {
        let (tool, input) = (shown_in_line(&call.entry.tool), short(&call.entry.input));
        let name = format!("{:>5}  {tool}  {input}", call.seq);
        match end {
            Again::Same => same += 1,
            Again::Different(diff) => {
                different += 1;
                lines.push(format!("{name}  differs today\n{}", diff.trim_end()));
            }
            Again::NotRun(why) => {
                not_run += 1;
                lines.push(format!("{name}  not run: {}", shown_in_line(why)));
            }
        }
    }
    lines.push(format!("{same} as they were, {different} differ, {not_run} not run"));
    lines.join("\n")
}
