//! Stage 6: when policy says ask, somebody is asked. The request is kept before anybody sees it, the first decision
//! counts, and whatever is not a yes in time is a no.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::{
    CallState, Gate, Halt, Inner, OnAsk, policy,
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

/// How far back it is looked for what a rule would have spared, and how long at most: somebody waits for the question.
const MOST_LOOKED_AT: usize = 2_000;
const LOOKING_BACK: Duration = Duration::from_millis(20);

pub(super) async fn approve(
    gate: &Inner,
    own: &Gate,
    flight: &mut CallState,
    on_ask: OnAsk,
) -> Result<(), Halt> {
    let is_decided = matches!(on_ask, OnAsk::Decided(_));
    if !is_decided && flight.decision().action != Action::Ask {
        return Ok(());
    }
    // Boxed: most calls are not asked about, and would carry room for it.
    Box::pin(have_decided(gate, own, flight, on_ask)).await
}

async fn have_decided(
    gate: &Inner,
    own: &Gate,
    flight: &mut CallState,
    on_ask: OnAsk,
) -> Result<(), Halt> {
    let record = match on_ask {
        // A decision stands, whatever the rules have become since; only a deny, one stage earlier, goes before it.
        OnAsk::Decided(record) => {
            flight
                .repairs
                .extend(gate.approvals.local_only_reason(&record.request.id).map(kept_here));
            if record.state == ApprovalState::Approved && !is_covered(flight, &record) {
                let request = keep_request(gate, own, flight).await?;
                return Err(Halt::Pending(request));
            }
            record
        }
        OnAsk::Return => {
            let request = keep_request(gate, own, flight).await?;
            return Err(Halt::Pending(request));
        }
        OnAsk::Wait => Arc::new(ask(gate, own, flight).await?),
    };
    flight.verdict = record.verdict.clone();
    if record.state != ApprovalState::Approved {
        return Err(refusal(flight, &record, record.state).into());
    }
    // From here on the recorded call is this one; no other process may run it.
    let record = gate.approvals.claim(&record.request.id).await.map_err(not_taken)?;
    remember(gate, flight, &record).await?;
    flight.approval = Some(Arc::new(record));
    Ok(())
}

/// Whether a person has seen everything that the call would touch now: a path may lead elsewhere since. That a command may
/// change files was shown says nothing about which ones, so that no power as a whole counts here.
fn is_covered(flight: &CallState, record: &ApprovalRecord) -> bool {
    let shown = &record.request.accesses;
    let is_shown = |access: &Access| {
        shown.iter().any(|shown| match access {
            // Requests keep neither what a command may be allowed with nor where a secret is bound to.
            Access::Command(_) | Access::SendSecret { .. } => shown.covers(access),
            _ => shown == access,
        })
    };
    flight.judged.iter().all(is_shown)
}

fn not_taken(error: ToolError) -> Halt {
    match error.kind() {
        ErrorKind::Conflict => Halt::TakenUp(error),
        _ => Halt::Failed(error),
    }
}

async fn ask(
    gate: &Inner,
    own: &Gate,
    flight: &mut CallState,
) -> Result<ApprovalRecord, ToolError> {
    if gate.handlers.is_empty() && !gate.is_decided_externally {
        let error = unavailable(flight, "and this program has no way to ask anybody");
        return Err(match &gate.no_approver_hint {
            Some(advice) => {
                let hint = format!("{}; {advice}", error.next_step());
                error.hint(hint)
            }
            None => error,
        });
    }
    let request = keep_request(gate, own, flight).await?;
    if let Some(trouble) = gate.approvals.local_only_reason(&request.id) {
        if gate.handlers.is_empty() {
            // Nobody outside sees it, and nobody here is asked: waiting would be for nothing.
            settle(gate, flight, &request, ApprovalState::Cancelled, None).await?;
            return Err(unavailable(
                flight,
                &format!("and nobody can see the question: {trouble}"),
            ));
        }
        flight.repairs.push(kept_here(trouble));
    }
    wait(gate, flight, &request).await
}

async fn keep_request(
    gate: &Inner,
    own: &Gate,
    flight: &CallState,
) -> Result<Arc<ApprovalRequest>, ToolError> {
    let suggestions = suggestions(gate, flight).await;
    let request = Arc::new(request(gate, own, flight, suggestions));
    gate.approvals.create(request.clone()).await?;
    send(gate, flight, || CallEventKind::ApprovalAsked(request.clone()));
    Ok(request)
}

/// What a yes may remember, and what that would have spared people so far.
async fn suggestions(gate: &Inner, flight: &CallState) -> Vec<Suggestion> {
    // What is wrong with them the stage before has told.
    let saved = gate.saved_rules.active(&flight.context.session).await.unwrap_or_default();
    let offers = gate.policy.offers(&policy::question(flight, &flight.judged, &saved));
    if offers.is_empty() {
        return Vec::new();
    }
    let until = Instant::now() + LOOKING_BACK;
    // A person waits: a past that cannot be told in time is left out.
    let newest = tokio::time::timeout_at(until, gate.ledger.newest(MOST_LOOKED_AT)).await;
    let entries = newest.ok().and_then(Result::ok).unwrap_or_default();
    let is_in_time = || Instant::now() < until;
    let pasts = gate.policy.pasts(&offers, &entries, is_in_time);
    let both = offers.into_iter().zip(pasts);
    both.map(|(rules, past)| Suggestion { rules, past }).collect()
}

fn request(
    gate: &Inner,
    own: &Gate,
    flight: &CallState,
    suggestions: Vec<Suggestion>,
) -> ApprovalRequest {
    let spec = flight.tool().spec();
    let decision = flight.decision();
    let created_ms = now_ms();
    let wait = u64::try_from(longest_wait(gate, flight).as_millis()).unwrap_or(u64::MAX);
    ApprovalRequest {
        id: new_id("ask"),
        call_id: flight.info.call_id.to_string(),
        session: flight.info.session.clone(),
        agents: flight.info.agents.clone(),
        profile: flight.context.profile.clone(),
        tool: spec.name.to_string(),
        title: spec.title.to_string(),
        input: Value::clone(&flight.input),
        confirmation: Confirmation::of(&spec.title, spec.effect, &flight.judged, true),
        accesses: flight.judged.clone(),
        preview: preview(gate, own, flight),
        reason: decision.reason.to_string(),
        suggestions,
        created_ms,
        expires_ms: created_ms.saturating_add(wait),
    }
}

/// The change as the tool foresees it; a tool that fails at this is asked about by its arguments.
fn preview(gate: &Inner, own: &Gate, flight: &CallState) -> Preview {
    let call = run::call(gate, own, flight, Granted::copied(flight), Instant::now());
    let foresee = AssertUnwindSafe(|| flight.tool().preview(&call));
    match catch_unwind(foresee) {
        Ok(Some(diff)) => Preview::Diff(diff),
        _ => Preview::of(&flight.input, &flight.accesses),
    }
}

fn longest_wait(gate: &Inner, flight: &CallState) -> Duration {
    if flight.context.unattended { gate.limits.unattended_wait } else { gate.limits.approval_wait }
}

/// Waits for whichever comes first: a handler's word, somebody else's, the end of the wait, or the caller's.
async fn wait(
    gate: &Inner,
    flight: &CallState,
    request: &Arc<ApprovalRequest>,
) -> Result<ApprovalRecord, ToolError> {
    let mut asking: JoinSet<Option<ApprovalDecision>> = JoinSet::new();
    for handler in &gate.handlers {
        let (handler, request) = (handler.clone(), request.clone());
        asking.spawn(async move { handler.decide(&request).await });
    }
    let lapse = tokio::time::sleep(longest_wait(gate, flight));
    let mut lapse = std::pin::pin!(lapse);
    let mut settled = gate.approvals.settled(&request.id);
    loop {
        tokio::select! {
            // In this order: a yes that comes with the news that the call was called off is too late.
            biased;
            () = flight.cancel.token.cancelled() => {
                return settle(gate, flight, request, ApprovalState::Cancelled, None).await;
            }
            record = &mut settled => {
                if let Ok(record) = &record {
                    let (id, state) = (request.id.clone(), record.state);
                    send(gate, flight, || CallEventKind::ApprovalDecided { id, state });
                }
                return record;
            }
            () = &mut lapse => return settle(gate, flight, request, ApprovalState::Expired, None).await,
            Some(answer) = asking.join_next() => match answer {
                Ok(Some(verdict)) => {
                    let state = if verdict.approved { ApprovalState::Approved } else { ApprovalState::Denied };
                    return settle(gate, flight, request, state, Some(verdict)).await;
                }
                // This way is closed (nobody there, or it broke); the others may still be open.
                Ok(None) | Err(_) if asking.is_empty() && !gate.is_decided_externally => {
                    settle(gate, flight, request, ApprovalState::Cancelled, None).await?;
                    return Err(unavailable(flight, "and nobody could be asked"));
                }
                Ok(None) | Err(_) => {}
            },
        }
    }
}

/// Ends the request; when somebody else was faster, theirs is the decision.
async fn settle(
    gate: &Inner,
    flight: &CallState,
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
    send(gate, flight, || CallEventKind::ApprovalDecided { id, state });
    Ok(record)
}

/// A rule that cannot be kept must not turn the yes into a no: the person would be asked again, that is all.
async fn remember(
    gate: &Inner,
    flight: &mut CallState,
    record: &ApprovalRecord,
) -> Result<(), ToolError> {
    if let Some(verdict) = &record.verdict
        && let Some(remember) = &verdict.remember
        && let Err(error) =
            gate.saved_rules.save(&record.request.session, &verdict.by, remember).await
    {
        flight.repairs.push(format!("the rule of this approval was not kept: {error}"));
    }
    Ok(())
}

fn refusal(flight: &CallState, record: &ApprovalRecord, state: ApprovalState) -> ToolError {
    let tool = flight.name();
    match state {
        ApprovalState::Denied => {
            let (by, note) = match &record.verdict {
                Some(verdict) => (verdict.by.as_str(), verdict.note.as_deref()),
                None => ("somebody", None),
            };
            let said = note.map_or(String::new(), |note| format!(": {note}"));
            let error = ToolError::new(
                ErrorKind::ApprovalDenied,
                format!("{by} said no to this call of `{tool}`{said}"),
            );
            match note {
                Some(_) => error.hint("do what they said instead"),
                None => error.hint(format!(
                    "do not repeat the call; a person who wants it to run can {}",
                    flight.decision().change
                )),
            }
        }
        ApprovalState::Expired => ToolError::new(
            ErrorKind::ApprovalExpired,
            format!("nobody decided about this call of `{tool}` in time, so it did not run"),
        ),
        _ if flight.cancel.token.is_cancelled() => ToolError::new(
            ErrorKind::Cancelled,
            format!("this call of `{tool}` was called off before anybody decided"),
        ),
        _ => unavailable(flight, "and nobody answered"),
    }
}

fn unavailable(flight: &CallState, why: &str) -> ToolError {
    let decision = flight.decision();
    let message = format!("`{}` needs a yes ({}), {why}", flight.name(), decision.reason);
    ToolError::new(ErrorKind::ApprovalUnavailable, message)
        .hint(format!("to run it unasked, {}", decision.change))
}

fn kept_here(trouble: String) -> String {
    format!("asked in this process only: {trouble}")
}

fn send(gate: &Inner, flight: &CallState, make: impl FnOnce() -> CallEventKind) {
    if gate.events.are_watched() {
        gate.events.send(CallEvent {
            call: flight.info.call_id.to_string(),
            session: flight.info.session.clone(),
            kind: make(),
        });
    }
}
