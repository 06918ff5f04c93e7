//! Stage 10: the ledger entry, then the event that the call is over. A record that cannot be written is not hidden.

use std::sync::Arc;

use serde_json::Value;

use super::{
    CallState, Inner,
    redact::{clean_access, clean_decision, clean_verdict},
};
use crate::{
    BoxFuture, Effect, LedgerEntry, Outcome, ToolError,
    events::{CallEvent, CallEventKind},
    sha256_hex,
};

pub(super) async fn record(gate: &Inner, flight: Box<CallState>, outcome: &mut Outcome) {
    let info = flight.info.clone();
    // Put together before anybody waits: whatever is waited beside has to be carried along.
    let recorded = enter(gate, flight, outcome);
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
    gate: &'a Inner,
    mut flight: Box<CallState>,
    outcome: &mut Outcome,
) -> BoxFuture<'a, Result<(), ToolError>> {
    let input = flight.take_input();
    let entry = LedgerEntry {
        tool: outcome.tool.clone(),
        repairs: outcome.repairs.clone(),
        error: outcome.error.as_ref().map(|error| error.kind),
        ms: outcome.ms,
        ..entry_of(gate, &flight, input)
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

/// The entry of a call as far as it has got.
pub(super) fn entry_of(gate: &Inner, flight: &CallState, mut input: Value) -> LedgerEntry {
    let redactor = &gate.redactor;
    redactor.value(&mut input);
    LedgerEntry {
        call_id: flight.info.call_id.to_string(),
        session: flight.info.session.clone(),
        agents: flight.info.agents.clone(),
        parent: flight.context.lineage.ancestors.last().map(|id| id.to_string()),
        tool: flight.name().to_owned(),
        effect: flight.tool.as_ref().map_or(Effect::Read, |tool| tool.spec().effect),
        input,
        repairs: flight.repairs.clone(),
        accesses: flight.judged.iter().map(|access| clean_access(redactor, access)).collect(),
        decision: flight.decision.clone().map(|decision| clean_decision(redactor, decision)),
        verdict: flight.verdict.clone().map(|verdict| clean_verdict(redactor, verdict)),
        begun_seq: flight.begun_seq,
        ..LedgerEntry::blank(flight.began_ms)
    }
}

/// The outcome as it is kept: without its time.
fn whole(outcome: &mut Outcome) -> Vec<u8> {
    let ms = std::mem::take(&mut outcome.ms);
    let text = serde_json::to_vec(outcome).expect("its maps have texts for keys");
    outcome.ms = ms;
    text
}
