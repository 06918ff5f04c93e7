//! Stage 10: the ledger entry, then the event that the call is over. A record that cannot be written is not hidden.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Flight, Inner,
    redact::{clean_access, clean_decision, clean_verdict},
};
use crate::{
    Effect, LedgerEntry, Outcome,
    events::{Event, Happening},
};

pub(super) async fn record(gate: &Inner, mut flight: Flight, outcome: &mut Outcome) {
    let redactor = &gate.redactor;
    let mut input = std::mem::take(&mut flight.input);
    redactor.value(&mut input);
    let result = gate.ledger.keeps_results().then(|| whole(outcome));
    let entry = LedgerEntry {
        call_id: flight.info.call_id.to_string(),
        session: flight.info.session.clone(),
        agents: flight.info.agents.clone(),
        parent: flight.context.lineage.ancestors.last().map(|id| id.to_string()),
        tool: outcome.tool.clone(),
        effect: flight.tool.as_ref().map_or(Effect::Read, |tool| tool.spec().effect),
        input,
        repairs: outcome.repairs.clone(),
        accesses: flight.judged.iter().map(|access| clean_access(redactor, access)).collect(),
        decision: flight.decision.map(|decision| clean_decision(redactor, decision)),
        verdict: flight.verdict.map(|verdict| clean_verdict(redactor, verdict)),
        error: outcome.error.as_ref().map(|error| error.kind),
        output_sha256: hex(&Sha256::digest(outcome.content.as_bytes())),
        result_sha256: result.as_ref().map(|result| hex(&Sha256::digest(result))),
        began_ms: flight.began_ms,
        ms: outcome.ms,
    };
    let recorded = match result {
        Some(result) => gate.ledger.record_with(entry, result),
        None => gate.ledger.record(entry),
    };
    if let Err(error) = recorded.await {
        let note = Value::String(format!("this call is not in the ledger: {error}"));
        outcome.metadata.insert("not_recorded".to_owned(), note);
    }
    if gate.events.are_watched() {
        gate.events.send(Event {
            call: flight.info.call_id.to_string(),
            session: flight.info.session.clone(),
            what: Happening::Finished(Arc::new(outcome.clone())),
        });
    }
}

/// The outcome as it is kept: without its time.
fn whole(outcome: &mut Outcome) -> Vec<u8> {
    let ms = std::mem::take(&mut outcome.ms);
    let text = serde_json::to_vec(outcome).expect("its maps have texts for keys");
    outcome.ms = ms;
    text
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}
