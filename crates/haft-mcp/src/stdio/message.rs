//! JSON-RPC messages as they stand on a line: read as far as is needed to know where they go, and written.

use std::borrow::Cow;

use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CancelledNotificationParam, RequestId},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::value::RawValue;

/// The outer parts of a message.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    /// Also when it is null, which no id may be: such a request must not pass for a notification.
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn given<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a message is.
pub(super) enum Kind {
    Request(RequestId),
    Notification,
    /// The client answers a request of ours.
    Answer,
}

impl<'a> Head<'a> {
    /// # Errors
    /// When the line is not one JSON object.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, ErrorData> {
        match serde_json::from_slice(line) {
            // serde would also take a list of as many parts for a message.
            Ok(head) if line.starts_with(b"{") => Ok(head),
            Ok(_) => Err(unreadable(line, "it is a list")),
            Err(error) => Err(unreadable(line, &error.to_string())),
        }
    }

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

    pub(super) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// The parameters of a `tools/call`.
    ///
    /// # Errors
    /// When they are not as the protocol has them.
    pub(super) fn call(&self) -> Result<CallToolRequestParams, ErrorData> {
        self.params().map_err(|error| {
            ErrorData::invalid_params(format!("the parameters of `tools/call`: {error}"), None)
        })
    }

    /// The request that a `notifications/cancelled` is about.
    pub(super) fn cancelled(&self) -> Option<RequestId> {
        self.params::<CancelledNotificationParam>().ok()?.request_id
    }

    fn params<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.params.map_or("{}", RawValue::get))
    }
}

fn unreadable(line: &[u8], problem: &str) -> ErrorData {
    // serde_json does not check that what it skips is UTF-8, so that comes first.
    let not_json = match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str::<IgnoredAny>(text).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match not_json {
        None => ErrorData::invalid_request(
            format!("a message is one JSON-RPC object (batches are not spoken here): {problem}"),
            None,
        ),
        Some(problem) => ErrorData::parse_error(format!("the line is not JSON: {problem}"), None),
    }
}

/// A line that answers a request.
pub(super) fn answer(id: &RequestId, result: &Result<impl Serialize, ErrorData>) -> Vec<u8> {
    match result {
        Ok(result) => line(&Answer { jsonrpc: "2.0", id, result }),
        Err(error) => self::error(Some(id), error),
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
    let mut line = Vec::with_capacity(1024);
    if serde_json::to_writer(&mut line, message).is_err() {
        // Only maps with keys that are not text cannot be written, and the protocol has none.
        line.clear();
    }
    line.push(b'\n');
    line
}
