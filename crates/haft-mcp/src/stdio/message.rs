//! JSON-RPC as it stands on the line, read only as far as is needed to know where it goes.

use std::borrow::Cow;

use rmcp::{
    ErrorData,
    model::{RequestId, ServerResult},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The outer parts of a message.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a message is.
pub(super) enum Kind {
    Request(RequestId),
    Notification,
    /// The client answers a request of ours.
    Answer,
}

impl Head<'_> {
    /// # Errors
    /// When it is none of the three, with what is wrong.
    pub(super) fn kind(&self) -> Result<Kind, ErrorData> {
        let id = self.id.map(|id| serde_json::from_str::<RequestId>(id.get()));
        match (&self.method, id) {
            (Some(_), Some(Ok(id))) => Ok(Kind::Request(id)),
            (Some(_), None) => Ok(Kind::Notification),
            (Some(_), Some(Err(_))) => {
                Err(ErrorData::invalid_request("the id is neither a string nor an integer", None))
            }
            (None, _) if self.result.is_some() || self.error.is_some() => Ok(Kind::Answer),
            (None, _) => Err(ErrorData::invalid_request("there is no method", None)),
        }
    }
}

/// A line that answers a request.
pub(super) fn answer(id: &RequestId, result: Result<ServerResult, ErrorData>) -> Vec<u8> {
    match result {
        Ok(result) => line(&Answer { jsonrpc: "2.0", id, result }),
        Err(error) => self::error(Some(id), &error),
    }
}

/// A line that says what was wrong; without an id when it is not known which request it was.
pub(super) fn error(id: Option<&RequestId>, error: &ErrorData) -> Vec<u8> {
    line(&Failure { jsonrpc: "2.0", id, error })
}

#[derive(Serialize)]
struct Answer<'a, T> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: T,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RequestId>,
    error: &'a ErrorData,
}

/// Any message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    if serde_json::to_writer(&mut line, message).is_err() {
        // Maps with keys that are no text are all that cannot be written, and the protocol has none.
        line.clear();
    }
    line.push(b'\n');
    line
}
