//! Stage 9: what must never be shown is taken out of everything that leaves.

use super::Inner;
use crate::Outcome;

pub(super) fn redact(gate: &Inner, outcome: &mut Outcome) {
    let redactor = &gate.redactor;
    let clean = |text: &mut String| {
        if let std::borrow::Cow::Owned(cleaned) = redactor.text(text) {
            *text = cleaned;
        }
    };
    clean(&mut outcome.title);
    clean(&mut outcome.content);
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
