//! Stage 8: redacts secrets from everything that is returned. This runs before truncation, because
//! stored texts must not contain secrets and a secret that is cut in two would not be found.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{GateInner, LONG_TEXT};
use crate::{
    Access, ApprovalDecision, Decision, Outcome, Redactor, access::ParsedCommand, policy::Reason,
    spawn_blocking,
};

pub(super) async fn redact(gate: &GateInner, outcome: &mut Outcome) {
    if outcome.content.len() >= LONG_TEXT {
        let (redactor, content) = (gate.redactor.clone(), std::mem::take(&mut outcome.content));
        let cleaned = spawn_blocking(move || Ok(cleaned(&redactor, content)));
        let content = cleaned.await.unwrap_or_else(|e| format!("[the result is lost: {e}]"));
        redact_short(&gate.redactor, outcome);
        outcome.content = content;
        return;
    }
    redact_short(&gate.redactor, outcome);
}

/// Redacts texts that are short enough to do so on this thread.
fn redact_short(redactor: &Redactor, outcome: &mut Outcome) {
    let clean = |text: &mut String| *text = cleaned(redactor, std::mem::take(text));
    clean(&mut outcome.content);
    clean(&mut outcome.title);
    outcome.repairs.iter_mut().for_each(clean);
    outcome.display.iter_mut().for_each(clean);
    if let Some(error) = &mut outcome.error {
        clean(&mut error.message);
        clean(&mut error.hint);
    }
    outcome.data.iter_mut().for_each(|data| redactor.value(data));
    outcome.metadata.values_mut().for_each(|value| redactor.value(value));
}

fn cleaned(redactor: &Redactor, text: String) -> String {
    match redactor.text(&text) {
        Cow::Owned(cleaned) => cleaned,
        Cow::Borrowed(_) => text,
    }
}

fn clean_texts(redactor: &Redactor, texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| redactor.text(text).into_owned()).collect()
}

/// Redacts an access for the record: commands and addresses may contain secrets.
pub(super) fn clean_access(redactor: &Redactor, access: &Access) -> Access {
    match access {
        Access::Run(command) => Access::Run(redactor.text(command).into_owned()),
        Access::Command(command) => Access::Command(Box::new(ParsedCommand {
            text: redactor.text(&command.text).into_owned(),
            risk: command.risk.clone(),
            rule_texts: Vec::new(),
            spellings: clean_texts(redactor, &command.spellings),
            known_prefixes: clean_texts(redactor, &command.known_prefixes),
        })),
        Access::Fetch(target) => Access::Fetch(redactor.text(target).into_owned()),
        Access::Secret { name, command } => {
            Access::Secret { name: name.clone(), command: redactor.text(command).into_owned() }
        }
        Access::SendSecret { .. } => access.clone(),
        Access::Read(path) => Access::Read(clean_path(redactor, path)),
        Access::Write(path) => Access::Write(clean_path(redactor, path)),
        Access::Many { path, is_pattern, is_write } => Access::Many {
            path: clean_path(redactor, path),
            is_pattern: *is_pattern,
            is_write: *is_write,
        },
        Access::Any(_) => access.clone(),
    }
}

fn clean_path(redactor: &Redactor, path: &Path) -> PathBuf {
    match path.to_str().map(|text| redactor.text(text)) {
        Some(Cow::Owned(cleaned)) => cleaned.into(),
        _ => path.to_owned(),
    }
}

/// Redacts an approval decision for the record: its note and rules may quote the call.
pub(super) fn clean_verdict(
    redactor: &Redactor,
    mut verdict: ApprovalDecision,
) -> ApprovalDecision {
    let rules = verdict.remember.iter_mut().flat_map(|remember| &mut remember.rules);
    rules.chain(&mut verdict.note).for_each(|text| *text = cleaned(redactor, std::mem::take(text)));
    verdict
}

/// Redacts a policy decision for the record: its texts quote the access.
pub(super) fn clean_decision(redactor: &Redactor, mut decision: Decision) -> Decision {
    let (Reason::Mode { access: Some(access), .. } | Reason::Secret { access, .. }) =
        &mut decision.reason
    else {
        return decision;
    };
    *access = clean_access(redactor, access);
    decision.change = redactor.text(&decision.change).into_owned();
    decision
}
