//! The state of a request between its rounds. From 2026-07-28 a server cannot send requests: it
//! ends the client's request with questions, and the client repeats the request with the answers
//! and the state. The state comes back from outside, so it is signed with a key that no other
//! process has, and bound to its request.

use std::{collections::BTreeMap, time::Duration};

use rmcp::{
    ErrorData,
    model::{InputRequests, InputRequiredResult, InputResponses, RequestStateCodec, SealOptions},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// As long as an unattended approval waits.
const MAX_AGE: Duration = Duration::from_secs(72 * 3600);

/// Results of the earlier rounds of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RequestState {
    /// The approval request that the call waits for.
    pub(crate) approval: Option<String>,
    /// Answers of the client, by the key of the question.
    pub(crate) answers: BTreeMap<String, Value>,
    /// State that the tool saved.
    pub(crate) kept: Option<Value>,
}

/// Signs and verifies the states of one server.
pub(crate) struct StateSealer(RequestStateCodec);

impl StateSealer {
    pub(crate) fn new() -> Self {
        let key: Vec<u8> = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()]
            .iter()
            .flat_map(|id| *id.as_bytes())
            .collect();
        Self(RequestStateCodec::try_new(key).expect("48 bytes exceed the minimum"))
    }

    /// Verifies a request's state and adds its new answers.
    ///
    /// # Errors
    /// When the state is not from this server, too old, or belongs to another request.
    pub(crate) fn open(
        &self,
        request_hash: &RequestHash,
        sealed: Option<&str>,
        answers: Option<InputResponses>,
    ) -> Result<RequestState, ErrorData> {
        let mut request_state = match sealed {
            None => RequestState::default(),
            Some(sealed) => self.0.open_json_with(sealed, &request_hash.0).map_err(|error| {
                let message = format!("requestState is invalid for this request: {error}");
                ErrorData::invalid_params(message, None)
            })?,
        };
        request_state.answers.extend(answers.unwrap_or_default());
        Ok(request_state)
    }

    /// Ends a round with questions and the signed state.
    pub(crate) fn ask(
        &self,
        request_hash: &RequestHash,
        request_state: &RequestState,
        questions: InputRequests,
    ) -> Result<InputRequiredResult, ErrorData> {
        let options = SealOptions::new().associated_data(&request_hash.0).ttl(MAX_AGE);
        let sealed = self.0.seal_json_with(request_state, &options).map_err(|error| {
            ErrorData::internal_error(
                format!("cannot save the state of the request: {error}"),
                None,
            )
        })?;
        let questions = Some(questions).filter(|questions| !questions.is_empty());
        Ok(InputRequiredResult::new(questions, Some(sealed)))
    }
}

/// Hash of the request that a state belongs to.
pub(crate) struct RequestHash([u8; 32]);

impl RequestHash {
    /// Hashes the method, the name and the arguments.
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

    fn sealed(seal: &StateSealer, request_hash: &RequestHash) -> String {
        let request_state =
            RequestState { approval: Some("ask-1".to_owned()), ..RequestState::default() };
        let asked =
            seal.ask(request_hash, &request_state, InputRequests::new()).expect("it is sealed");
        asked.request_state.expect("a note")
    }

    #[test]
    fn a_state_opens_for_its_own_request() {
        let (seal, request_hash) =
            (StateSealer::new(), RequestHash::of("tools/call", "edit", &json!({"a": 1})));
        let sealed = sealed(&seal, &request_hash);
        let answers = InputResponses::from([("x".to_owned(), json!(1))]);
        let request_state = seal.open(&request_hash, Some(&sealed), Some(answers)).expect("ours");
        assert_eq!(request_state.approval.as_deref(), Some("ask-1"));
        assert_eq!(request_state.answers["x"], 1);
    }

    #[test]
    fn a_forged_foreign_or_moved_state_is_refused() {
        let (seal, request_hash) =
            (StateSealer::new(), RequestHash::of("tools/call", "edit", &json!({"a": 1})));
        let sealed = sealed(&seal, &request_hash);
        let other_call = RequestHash::of("tools/call", "edit", &json!({"a": 2}));
        let mut forged = sealed.clone();
        forged.push('x');
        for (seal, request_hash, sealed) in [
            (&seal, &other_call, sealed.as_str()),
            (&seal, &request_hash, forged.as_str()),
            (&seal, &request_hash, ""),
            (&StateSealer::new(), &request_hash, sealed.as_str()),
        ] {
            let error = seal.open(request_hash, Some(sealed), None).expect_err("not ours");
            assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
        }
    }
}
