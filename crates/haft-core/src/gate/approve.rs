//! Stage 6: requests approval if policy says ask. The request is stored before an approver sees it,
//! the first decision counts, and no approval in time means the call does not run.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::{
    CallState, Gate, GateInner, Halt, OnAsk, policy,
    run::{self, Granted},
};
use crate::{
    Access, ApprovalDecision, ApprovalRecord, ApprovalRequest, ApprovalState, Approvals,
    Confirmation, ErrorKind, Preview, Suggestion, ToolError,
    clock::now_ms,
    events::{CallEvent, CallEventKind},
    ids::new_id,
    policy::Action,
};
use serde_json::Value;

/// Limits for counting the prompts that a rule would have avoided: the number of replayed entries,
/// and the time. The time is short because an approver is waiting.
const MAX_REPLAYED_ENTRIES: usize = 2_000;
const REPLAY_TIMEOUT: Duration = Duration::from_millis(20);

pub(super) async fn approve(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
    on_ask: OnAsk,
) -> Result<(), Halt> {
    let is_decided = matches!(on_ask, OnAsk::Decided(_));
    if !is_decided && call_state.decision().action != Action::Ask {
        return Ok(());
    }
    // Boxed: most calls need no approval and their futures would reserve space for it.
    Box::pin(get_decision(gate, own, call_state, on_ask)).await
}

async fn get_decision(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
    on_ask: OnAsk,
) -> Result<(), Halt> {
    let record = match on_ask {
        // A decision holds even if the rules have changed since. Only a deny in the policy stage
        // takes precedence.
        OnAsk::Decided(record) => {
            call_state
                .repairs
                .extend(gate.approvals.local_only_reason(&record.request.id).map(local_only_note));
            if record.state == ApprovalState::Approved && !is_covered(call_state, &record) {
                let request = keep_request(gate, own, call_state).await?;
                return Err(Halt::Pending(request));
            }
            record
        }
        OnAsk::Return => {
            let request = keep_request(gate, own, call_state).await?;
            return Err(Halt::Pending(request));
        }
        OnAsk::Wait => Arc::new(ask(gate, own, call_state).await?),
    };
    call_state.verdict = record.verdict.clone();
    if record.state != ApprovalState::Approved {
        return Err(refusal(call_state, &record, record.state).into());
    }
    // From here on this process runs the recorded call; no other process may.
    let record = gate.approvals.claim(&record.request.id).await.map_err(claim_error)?;
    remember(gate, call_state, &record).await?;
    call_state.approval = Some(Arc::new(record));
    Ok(())
}

/// Returns true if the approver saw everything that the call would touch now: a path may resolve
/// differently since. A power as a whole does not count, because "this command may change files"
/// does not say which ones.
fn is_covered(call_state: &CallState, record: &ApprovalRecord) -> bool {
    let shown = &record.request.accesses;
    let is_shown = |access: &Access| {
        shown.iter().any(|shown| match access {
            // Stored requests keep neither `rule_texts` nor host bindings, so `covers` compares
            // without them.
            Access::Command(_) | Access::SendSecret { .. } => shown.covers(access),
            _ => shown == access,
        })
    };
    call_state.judged.iter().all(is_shown)
}

fn claim_error(error: ToolError) -> Halt {
    match error.kind() {
        ErrorKind::Conflict => Halt::ClaimedElsewhere(error),
        _ => Halt::Failed(error),
    }
}

async fn ask(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
) -> Result<ApprovalRecord, ToolError> {
    if gate.handlers.is_empty() && !gate.is_decided_externally {
        let error = unavailable(call_state, "but this program has no approval handler");
        return Err(match &gate.no_approver_hint {
            Some(advice) => {
                let hint = format!("{}; {advice}", error.next_step());
                error.hint(hint)
            }
            None => error,
        });
    }
    let request = keep_request(gate, own, call_state).await?;
    if let Some(trouble) = gate.approvals.local_only_reason(&request.id) {
        if gate.handlers.is_empty() {
            // No process can show the request to an approver, so waiting would be useless.
            settle(gate, call_state, &request, ApprovalState::Cancelled, None).await?;
            return Err(unavailable(
                call_state,
                &format!("but no approver can see the request: {trouble}"),
            ));
        }
        call_state.repairs.push(local_only_note(trouble));
    }
    wait(gate, call_state, &request).await
}

async fn keep_request(
    gate: &GateInner,
    own: &Gate,
    call_state: &CallState,
) -> Result<Arc<ApprovalRequest>, ToolError> {
    let suggestions = suggestions(gate, call_state).await;
    let request = Arc::new(request(gate, own, call_state, suggestions));
    gate.approvals.create(request.clone()).await?;
    send(gate, call_state, || CallEventKind::ApprovalAsked(request.clone()));
    Ok(request)
}

/// The rules that an approval may save, with the number of prompts they would have avoided so far.
async fn suggestions(gate: &GateInner, call_state: &CallState) -> Vec<Suggestion> {
    // The policy stage has already reported an error of the saved rules.
    let saved = gate.saved_rules.active(&call_state.context.session).await.unwrap_or_default();
    let offers = gate.policy.offers(&policy::query(call_state, &call_state.judged, &saved));
    if offers.is_empty() {
        return Vec::new();
    }
    let until = Instant::now() + REPLAY_TIMEOUT;
    // An approver is waiting: leave the count out if it is not available in time.
    let newest = tokio::time::timeout_at(until, gate.ledger.newest(MAX_REPLAYED_ENTRIES)).await;
    let entries = newest.ok().and_then(Result::ok).unwrap_or_default();
    let is_in_time = || Instant::now() < until;
    let avoided = gate.policy.prompts_avoided(&offers, &entries, is_in_time);
    let both = offers.into_iter().zip(avoided);
    both.map(|(rules, past)| Suggestion { rules, past }).collect()
}

fn request(
    gate: &GateInner,
    own: &Gate,
    call_state: &CallState,
    suggestions: Vec<Suggestion>,
) -> ApprovalRequest {
    let spec = call_state.tool().spec();
    let decision = call_state.decision();
    let created_ms = now_ms();
    let wait = u64::try_from(approval_timeout(gate, call_state).as_millis()).unwrap_or(u64::MAX);
    ApprovalRequest {
        id: new_id("ask"),
        call_id: call_state.info.call_id.to_string(),
        session: call_state.info.session.clone(),
        agents: call_state.info.agents.clone(),
        profile: call_state.context.profile.clone(),
        tool: spec.name.to_string(),
        title: spec.title.to_string(),
        input: Value::clone(&call_state.input),
        confirmation: Confirmation::of(&spec.title, spec.effect, &call_state.judged, true),
        accesses: call_state.judged.clone(),
        preview: preview(gate, own, call_state),
        reason: decision.reason.to_string(),
        suggestions,
        created_ms,
        expires_ms: created_ms.saturating_add(wait),
    }
}

/// The preview from the tool. If the tool has none or fails, the request shows the arguments.
fn preview(gate: &GateInner, own: &Gate, call_state: &CallState) -> Preview {
    let call = run::call(gate, own, call_state, Granted::copied(call_state), Instant::now());
    let make_preview = AssertUnwindSafe(|| call_state.tool().preview(&call));
    match catch_unwind(make_preview) {
        Ok(Some(diff)) => Preview::Diff(diff),
        _ => Preview::of(&call_state.input, &call_state.accesses),
    }
}

fn approval_timeout(gate: &GateInner, call_state: &CallState) -> Duration {
    if call_state.context.unattended {
        gate.limits.unattended_wait
    } else {
        gate.limits.approval_wait
    }
}

/// Waits for the first of: a handler's decision, a decision from outside, the timeout, or
/// cancellation.
async fn wait(
    gate: &GateInner,
    call_state: &CallState,
    request: &Arc<ApprovalRequest>,
) -> Result<ApprovalRecord, ToolError> {
    let mut asking: JoinSet<Option<ApprovalDecision>> = JoinSet::new();
    for handler in &gate.handlers {
        let (handler, request) = (handler.clone(), request.clone());
        asking.spawn(async move { handler.decide(&request).await });
    }
    let expiry = tokio::time::sleep(approval_timeout(gate, call_state));
    let mut expiry = std::pin::pin!(expiry);
    let mut settled = gate.approvals.settled(&request.id);
    loop {
        tokio::select! {
            // Cancellation is checked first: an approval that arrives together with it is too late.
            biased;
            () = call_state.cancel.token.cancelled() => {
                return settle(gate, call_state, request, ApprovalState::Cancelled, None).await;
            }
            record = &mut settled => {
                if let Ok(record) = &record {
                    let (id, state) = (request.id.clone(), record.state);
                    send(gate, call_state, || CallEventKind::ApprovalDecided { id, state });
                }
                return record;
            }
            () = &mut expiry => return settle(gate, call_state, request, ApprovalState::Expired, None).await,
            Some(answer) = asking.join_next() => match answer {
                Ok(Some(verdict)) => {
                    let state = if verdict.approved { ApprovalState::Approved } else { ApprovalState::Denied };
                    return settle(gate, call_state, request, state, Some(verdict)).await;
                }
                // This handler has no approver or failed; the others may still decide.
                Ok(None) | Err(_) if asking.is_empty() && !gate.is_decided_externally => {
                    settle(gate, call_state, request, ApprovalState::Cancelled, None).await?;
                    return Err(unavailable(call_state, "but no approver is available"));
                }
                Ok(None) | Err(_) => {}
            },
        }
    }
}

/// Settles the request. If another decision was faster, that one is returned.
async fn settle(
    gate: &GateInner,
    call_state: &CallState,
    request: &ApprovalRequest,
    state: ApprovalState,
    verdict: Option<ApprovalDecision>,
) -> Result<ApprovalRecord, ToolError> {
    let approvals: &dyn Approvals = &*gate.approvals;
    let record = match approvals.settle(&request.id, state, verdict).await {
        Err(error) if error.kind() == ErrorKind::Conflict => approvals.settled(&request.id).await?,
        other => other?,
    };
    let (id, state) = (request.id.clone(), record.state);
    send(gate, call_state, || CallEventKind::ApprovalDecided { id, state });
    Ok(record)
}

/// A rule that cannot be saved must not turn the approval into a denial. The only cost is another
/// prompt.
async fn remember(
    gate: &GateInner,
    call_state: &mut CallState,
    record: &ApprovalRecord,
) -> Result<(), ToolError> {
    if let Some(verdict) = &record.verdict
        && let Some(remember) = &verdict.remember
        && let Err(error) =
            gate.saved_rules.save(&record.request.session, &verdict.by, remember).await
    {
        call_state.repairs.push(format!("the rule of this approval was not saved: {error}"));
    }
    Ok(())
}

fn refusal(call_state: &CallState, record: &ApprovalRecord, state: ApprovalState) -> ToolError {
    let tool = call_state.name();
    match state {
        ApprovalState::Denied => {
            let (by, note) = match &record.verdict {
                Some(verdict) => (verdict.by.as_str(), verdict.note.as_deref()),
                None => ("an approver", None),
            };
            let said = note.map_or(String::new(), |note| format!(": {note}"));
            let error = ToolError::new(
                ErrorKind::ApprovalDenied,
                format!("{by} denied this call of `{tool}`{said}"),
            );
            match note {
                Some(_) => error.hint("follow the approver's note instead"),
                None => error.hint(format!(
                    "do not repeat the call; a person who wants it to run can {}",
                    call_state.decision().change
                )),
            }
        }
        ApprovalState::Expired => ToolError::new(
            ErrorKind::ApprovalExpired,
            format!("no approver decided on this call of `{tool}` in time, so it did not run"),
        ),
        _ if call_state.cancel.token.is_cancelled() => ToolError::new(
            ErrorKind::Cancelled,
            format!("this call of `{tool}` was cancelled before a decision"),
        ),
        _ => unavailable(call_state, "but no approver answered"),
    }
}

fn unavailable(call_state: &CallState, why: &str) -> ToolError {
    let decision = call_state.decision();
    let message = format!("`{}` needs approval ({}), {why}", call_state.name(), decision.reason);
    ToolError::new(ErrorKind::ApprovalUnavailable, message)
        .hint(format!("to run it without approval, {}", decision.change))
}

fn local_only_note(trouble: String) -> String {
    format!("the approval request is visible in this process only: {trouble}")
}

fn send(gate: &GateInner, call_state: &CallState, make: impl FnOnce() -> CallEventKind) {
    if gate.events.are_watched() {
        gate.events.send(CallEvent {
            call: call_state.info.call_id.to_string(),
            session: call_state.info.session.clone(),
            kind: make(),
        });
    }
}
