//! Stage 10: writes the ledger entry, then sends the event that the call is finished. A record that
//! cannot be written is reported in the outcome.

use std::sync::Arc;

use serde_json::Value;

use super::{
    CallState, GateInner,
    redact::{clean_access, clean_decision, clean_verdict},
};
use crate::{
    BoxFuture, Effect, LedgerEntry, Outcome, ToolError,
    events::{CallEvent, CallEventKind},
    sha256_hex,
};

pub(super) async fn record(gate: &GateInner, call_state: Box<CallState>, outcome: &mut Outcome) {
    let info = call_state.info.clone();
    // Built before the first await, so that the future does not have to hold its parts.
    let recorded = enter(gate, call_state, outcome);
    if let Err(error) = recorded.await {
        let note = Value::String(format!("this call is not in the ledger: {error}"));
        outcome.metadata.insert("not_recorded".to_owned(), note);
    }
    if gate.events.are_watched() {
        gate.events.send(CallEvent {
            call: info.call_id.to_string(),
            session: info.session.clone(),
            kind: CallEventKind::Finished(Arc::new(outcome.clone())),
        });
    }
}

fn enter<'a>(
    gate: &'a GateInner,
    mut call_state: Box<CallState>,
    outcome: &mut Outcome,
) -> BoxFuture<'a, Result<(), ToolError>> {
    let input = call_state.take_input();
    let entry = LedgerEntry {
        tool: outcome.tool.clone(),
        repairs: outcome.repairs.clone(),
        error: outcome.error.as_ref().map(|error| error.kind),
        ms: outcome.ms,
        ..entry_of(gate, &call_state, input)
    };
    if !gate.ledger.keeps_results() {
        return gate.ledger.record_unhashed(entry, &outcome.content);
    }
    let result = whole(outcome);
    let entry = LedgerEntry {
        output_sha256: sha256_hex([outcome.content.as_bytes()]),
        result_sha256: Some(sha256_hex([&result])),
        ..entry
    };
    gate.ledger.record_with(entry, result)
}

/// The entry of a call, as far as it has progressed.
pub(super) fn entry_of(gate: &GateInner, call_state: &CallState, mut input: Value) -> LedgerEntry {
    let redactor = &gate.redactor;
    redactor.value(&mut input);
    LedgerEntry {
        call_id: call_state.info.call_id.to_string(),
        session: call_state.info.session.clone(),
        agents: call_state.info.agents.clone(),
        parent: call_state.context.lineage.ancestors.last().map(|id| id.to_string()),
        tool: call_state.name().to_owned(),
        effect: call_state.tool.as_ref().map_or(Effect::Read, |tool| tool.spec().effect),
        input,
        repairs: call_state.repairs.clone(),
        accesses: call_state.judged.iter().map(|access| clean_access(redactor, access)).collect(),
        decision: call_state.decision.clone().map(|decision| clean_decision(redactor, decision)),
        verdict: call_state.verdict.clone().map(|verdict| clean_verdict(redactor, verdict)),
        begun_seq: call_state.begun_seq,
        ..LedgerEntry::blank(call_state.began_ms)
    }
}

/// Serializes the outcome as it is stored: without its duration.
fn whole(outcome: &mut Outcome) -> Vec<u8> {
    let ms = std::mem::take(&mut outcome.ms);
    let text = serde_json::to_vec(outcome).expect("its maps have string keys");
    outcome.ms = ms;
    text
}
