//! Stage 9: what must never be shown is taken out of everything that leaves.

use super::Inner;
use crate::{Access, Decision, Outcome, Redactor, access::ReadCommand, policy::Reason};

pub(super) fn redact(gate: &Inner, outcome: &mut Outcome) {
    let redactor = &gate.redactor;
    let clean = |text: &mut String| {
        if let std::borrow::Cow::Owned(cleaned) = redactor.text(text) {
            *text = cleaned;
        }
    };
    clean(&mut outcome.title);
    clean(&mut outcome.content);
    outcome.repairs.iter_mut().for_each(clean);
    if let Some(display) = &mut outcome.display {
        clean(display);
    }
    if let Some(error) = &mut outcome.error {
        clean(&mut error.message);
        clean(&mut error.hint);
    }
    if let Some(data) = &mut outcome.data {
        redactor.value(data);
    }
    outcome.metadata.values_mut().for_each(|value| redactor.value(value));
}

/// An access for the record: commands and addresses may carry secrets.
pub(super) fn clean_access(redactor: &Redactor, access: &Access) -> Access {
    match access {
        Access::Run(command) => Access::Run(redactor.text(command).into_owned()),
        Access::Command(command) => Access::Command(Box::new(ReadCommand {
            text: redactor.text(&command.text).into_owned(),
            risk: command.risk.clone(),
            widths: Vec::new(),
        })),
        Access::Fetch(target) => Access::Fetch(redactor.text(target).into_owned()),
        other => other.clone(),
    }
}

/// A decision for the record: its words quote the access.
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
