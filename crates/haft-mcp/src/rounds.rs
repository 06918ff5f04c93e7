//! From 2026-07-28 a server cannot ask its client anything: it ends the request with questions, and the client sends the
//! request again with the answers and a sealed note. This is that note. It comes back from outside, so it is signed with a
//! key that no other process has, and bound to the request it was made for.

use std::{collections::BTreeMap, time::Duration};

use rmcp::{
    ErrorData,
    model::{InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, SealOptions},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// As long as an unattended approval waits.
const LONGEST: Duration = Duration::from_secs(72 * 3600);

/// What is known from earlier rounds of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// The approval that the call waits for.
    pub(crate) approval: Option<String>,
    /// What the client answered, by the name of the question.
    pub(crate) answers: BTreeMap<String, Value>,
    /// What the tool wanted to remember.
    pub(crate) kept: Option<Value>,
}

/// Signs and checks the notes of one server.
pub(crate) struct Seal(RequestStateCodec);

impl Seal {
    pub(crate) fn new() -> Self {
        let key: Vec<u8> = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()]
            .iter()
            .flat_map(|id| *id.as_bytes())
            .collect();
        Self(RequestStateCodec::try_new(key).expect("48 bytes are more than the least"))
    }

    /// What is known of a request that names this note and brings these answers.
    ///
    /// # Errors
    /// When the note is not ours, too old, or of another request.
    pub(crate) fn open(
        &self,
        subject: &Subject,
        note: Option<&str>,
        answers: Option<InputResponses>,
    ) -> Result<Rounds, ErrorData> {
        let mut rounds = match note {
            None => Rounds::default(),
            Some(note) => self.0.open_json_with(note, &subject.0).map_err(|error| {
                let message = format!("requestState is not one of ours for this request: {error}");
                ErrorData::invalid_params(message, None)
            })?,
        };
        rounds.answers.extend(answers.unwrap_or_default());
        Ok(rounds)
    }

    /// The end of a round: these questions, and the note to bring back.
    pub(crate) fn ask(
        &self,
        subject: &Subject,
        rounds: &Rounds,
        questions: InputRequests,
    ) -> Result<InputRequiredResult, ErrorData> {
        let options = SealOptions::new().associated_data(&subject.0).ttl(LONGEST);
        let note = self.0.seal_json_with(rounds, &options).map_err(|error| {
            ErrorData::internal_error(format!("the request cannot be put aside: {error}"), None)
        })?;
        let questions = Some(questions).filter(|questions| !questions.is_empty());
        Ok(InputRequiredResult::new(questions, Some(note)))
    }
}

/// Which request a note belongs to.
pub(crate) struct Subject([u8; 32]);

impl Subject {
    /// What was asked for, in every word that counts.
    pub(crate) fn of(method: &str, name: &str, arguments: &Value) -> Self {
        let mut hash = blake3::Hasher::new();
        for part in [method, name, &arguments.to_string()] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Self(*hash.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn note(seal: &Seal, subject: &Subject) -> String {
        let rounds = Rounds { approval: Some("ask-1".to_owned()), ..Rounds::default() };
        let asked = seal.ask(subject, &rounds, InputRequests::new()).expect("it is sealed");
        asked.request_state.expect("a note")
    }

    #[test]
    fn a_note_comes_back_to_its_own_request() {
        let (seal, subject) = (Seal::new(), Subject::of("tools/call", "edit", &json!({"a": 1})));
        let note = note(&seal, &subject);
        let answers = InputResponses::from([("x".to_owned(), json!(1))]);
        let rounds = seal.open(&subject, Some(&note), Some(answers)).expect("ours");
        assert_eq!(rounds.approval.as_deref(), Some("ask-1"));
        assert_eq!(rounds.answers["x"], 1);
    }

    #[test]
    fn a_forged_foreign_or_moved_note_is_refused() {
        let (seal, subject) = (Seal::new(), Subject::of("tools/call", "edit", &json!({"a": 1})));
        let note = note(&seal, &subject);
        let other_call = Subject::of("tools/call", "edit", &json!({"a": 2}));
        let mut forged = note.clone();
        forged.push('x');
        for (seal, subject, note) in [
            (&seal, &other_call, note.as_str()),
            (&seal, &subject, forged.as_str()),
            (&seal, &subject, ""),
            (&Seal::new(), &subject, note.as_str()),
        ] {
            let error = seal.open(subject, Some(note), None).expect_err("not ours");
            assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
        }
    }
}
