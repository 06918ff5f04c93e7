//! JSON-RPC messages on a line: parsed as far as needed to route them, and written.

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

/// The top-level fields of a message.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    /// Also set for `null`, which is not a valid id: such a request must not count as a
    /// notification.
    #[serde(borrow, default, deserialize_with = "present")]
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

fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Kind of a message.
pub(super) enum MessageKind {
    Request(RequestId),
    Notification,
    /// The client answers a request of the server.
    Answer,
}

impl<'a> Head<'a> {
    /// # Errors
    /// When the line is not a JSON object.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, ErrorData> {
        match serde_json::from_slice(line) {
            // serde would also accept an array with as many elements.
            Ok(head) if line.starts_with(b"{") => Ok(head),
            Ok(_) => Err(unreadable(line, "it is a list")),
            Err(error) => Err(unreadable(line, &error.to_string())),
        }
    }

    /// # Errors
    /// When it is none of the three, with the reason.
    pub(super) fn kind(&self) -> Result<MessageKind, ErrorData> {
        let id = self.id.map(|id| serde_json::from_str::<RequestId>(id.get()));
        match (&self.method, id) {
            (Some(_), Some(Ok(id))) => Ok(MessageKind::Request(id)),
            (Some(_), None) => Ok(MessageKind::Notification),
            (Some(_), Some(Err(_))) => {
                Err(ErrorData::invalid_request("the id is neither a string nor an integer", None))
            }
            (None, _) if self.result.is_some() || self.error.is_some() => Ok(MessageKind::Answer),
            (None, _) => Err(ErrorData::invalid_request("there is no method", None)),
        }
    }

    pub(super) fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// Returns the parameters of a `tools/call`.
    ///
    /// # Errors
    /// When they do not match the protocol.
    pub(super) fn call(&self) -> Result<CallToolRequestParams, ErrorData> {
        self.params().map_err(|error| {
            ErrorData::invalid_params(format!("the parameters of `tools/call`: {error}"), None)
        })
    }

    /// Returns the request that a `notifications/cancelled` is about.
    pub(super) fn cancelled(&self) -> Option<RequestId> {
        self.params::<CancelledNotificationParam>().ok()?.request_id
    }

    fn params<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.params.map_or("{}", RawValue::get))
    }
}

fn unreadable(line: &[u8], problem: &str) -> ErrorData {
    // serde_json does not check that skipped parts are UTF-8, so check that first.
    let not_json = match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str::<IgnoredAny>(text).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match not_json {
        None => ErrorData::invalid_request(
            format!("a message is one JSON-RPC object (batches are not supported): {problem}"),
            None,
        ),
        Some(problem) => ErrorData::parse_error(format!("the line is not JSON: {problem}"), None),
    }
}

/// Writes the answer to a request as a line.
pub(super) fn answer(id: &RequestId, result: &Result<impl Serialize, ErrorData>) -> Vec<u8> {
    match result {
        Ok(result) => line(&ResponseLine { jsonrpc: "2.0", id, result }),
        Err(error) => self::error(Some(id), error),
    }
}

/// Writes an error as a line; without an id if the request is not known.
pub(super) fn error(id: Option<&RequestId>, error: &ErrorData) -> Vec<u8> {
    line(&ErrorLine { jsonrpc: "2.0", id, error })
}

#[derive(Serialize)]
struct ResponseLine<'a, T> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: T,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RequestId>,
    error: &'a ErrorData,
}

/// Writes any message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(1024);
    if serde_json::to_writer(&mut line, message).is_err() {
        // Only maps with non-text keys cannot be written, and the protocol has none.
        line.clear();
    }
    line.push(b'\n');
    line
}
