//! JSON-RPC as it stands on the line, read only as far as is needed to know where it goes.

use std::{borrow::Cow, fmt};

use haft_core::{Outcome, Schema, ToolSpec};
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResult, ListToolsResult, RequestId, ServerResult},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::escape;
use crate::{
    definition,
    result::{self, Envelope},
};

/// The outer parts of a message.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    /// Also when it is null, which no id may be: such a request must not pass for a notification.
    #[serde(borrow, default, deserialize_with = "given")]
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

fn given<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A call of a tool, read in one go. Only of messages that are written as most are: whatever is in doubt, or wrong, is left to
/// [`Head`], which says what it is.
pub(super) struct Call {
    pub(super) id: RequestId,
    pub(super) params: Box<CallToolRequestParams>,
}

impl Call {
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_slice(line);
        let call = reader.deserialize_map(CallVisitor).ok()?;
        reader.end().ok()?;
        Some(call)
    }
}

struct CallVisitor;

impl<'de> Visitor<'de> for CallVisitor {
    type Value = Call;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a call of a tool, its method before its parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Call, A::Error> {
        let doubtful = || A::Error::custom("not written as most are");
        let (mut id, mut params, mut is_call) = (None, None, false);
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "jsonrpc" if !is_call => {
                    map.next_value::<&str>()?;
                }
                "id" if id.is_none() => id = Some(map.next_value()?),
                "method" if !is_call => is_call = map.next_value::<&str>()? == "tools/call",
                "params" if is_call && params.is_none() => params = Some(map.next_value()?),
                _ => return Err(doubtful()),
            }
        }
        match (id, params) {
            (Some(id), Some(params)) => Ok(Call { id, params }),
            _ => Err(doubtful()),
        }
    }
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
        // Nearly all answers, and the long ones.
        Ok(ServerResult::CallToolResult(result)) => call_answer(id, &result),
        Ok(result) => line(&Answer { jsonrpc: "2.0", id, result }),
        Err(error) => self::error(Some(id), &error),
    }
}

/// A line that answers a call of a client of the earlier era.
pub(super) fn outcome(
    id: &RequestId,
    outcome: Outcome,
    data: Option<&Schema>,
    envelope: Envelope,
) -> Vec<u8> {
    let text = outcome.content.len();
    let mut line = Vec::with_capacity(text + text / 8 + 512);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    put(&mut line, id);
    line.extend_from_slice(br#","result":"#);
    result::put(&mut line, outcome, data, envelope);
    line.extend_from_slice(b"}\n");
    line
}

/// A line that answers a request for the tools: what rmcp has made of everything else, which ends with the list, and the list.
pub(super) fn listing(
    id: &RequestId,
    result: &ListToolsResult,
    tools: &[ToolSpec],
    structured: bool,
) -> Vec<u8> {
    let mut line = line(&Answer { jsonrpc: "2.0", id, result });
    debug_assert!(line.ends_with(b"\"tools\":[]}}\n"));
    line.truncate(line.len().saturating_sub(b"]}}\n".len()));
    line.reserve(64 << 10);
    for (number, spec) in tools.iter().enumerate() {
        if number > 0 {
            line.push(b',');
        }
        definition::put(&mut line, spec, structured);
    }
    line.extend_from_slice(b"]}}\n");
    line
}

/// The same line as serde would write, several times as fast: the text of a result is most of it, and is escaped by
/// eights of bytes.
fn call_answer(id: &RequestId, result: &CallToolResult) -> Vec<u8> {
    let texts: usize =
        result.content.iter().map(|block| block.as_text().map_or(0, |it| it.text.len())).sum();
    let mut line = Vec::with_capacity(texts + texts / 8 + 512);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    put(&mut line, id);
    line.extend_from_slice(br#","result":{"#);
    if let Some(kind) = &result.result_type {
        line.extend_from_slice(br#""resultType":"#);
        put(&mut line, kind);
        line.push(b',');
    }
    line.extend_from_slice(br#""content":["#);
    for (number, block) in result.content.iter().enumerate() {
        if number > 0 {
            line.push(b',');
        }
        match block.as_text() {
            Some(text) if text.meta.is_none() && text.annotations.is_none() => {
                line.extend_from_slice(br#"{"type":"text","text":"#);
                escape::put(&mut line, &text.text);
                line.push(b'}');
            }
            _ => put(&mut line, block),
        }
    }
    line.push(b']');
    put_field(&mut line, br#","structuredContent":"#, result.structured_content.as_ref());
    put_field(&mut line, br#","isError":"#, result.is_error.as_ref());
    put_field(&mut line, br#","_meta":"#, result.meta.as_ref());
    line.extend_from_slice(b"}}\n");
    line
}

fn put_field(line: &mut Vec<u8>, name: &[u8], value: Option<&impl Serialize>) {
    if let Some(value) = value {
        line.extend_from_slice(name);
        put(line, value);
    }
}

fn put(line: &mut Vec<u8>, value: &impl Serialize) {
    // Maps with keys that are no text are all that cannot be written, and the protocol has none.
    let _ = serde_json::to_writer(line, value);
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

#[cfg(test)]
mod tests {
    use haft_core::{Power, Schema};
    use rmcp::model::{ContentBlock, MetaObject, NumberOrString};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_written_as_serde_writes_it() {
        let schema = |name: &str| {
            let properties = json!({ name: {"type": "string", "description": "a \"b\"\n"} });
            let schema = json!({"type": "object", "properties": properties, "required": [name]});
            Schema::from_value(schema).expect("a schema")
        };
        let spec = |name: &str| ToolSpec::declared("a test", name, "Says \"x\"\u{1}", schema("in"));
        let mut full = spec("one").needs([Power::Shell]);
        full.output = Some(schema("out"));
        let specs = [full, spec("two")];
        for (structured, count) in [(true, 2), (false, 2), (true, 1), (true, 0)] {
            let specs = &specs[..count];
            let mut result = ListToolsResult::with_all_items(Vec::new());
            result.ttl_ms = Some(5);
            let line = listing(&NumberOrString::Number(7), &result, specs, structured);
            result.tools = specs.iter().map(|spec| definition::tool(spec, structured)).collect();
            let usual =
                super::line(&Answer { jsonrpc: "2.0", id: &NumberOrString::Number(7), result });
            assert_eq!(String::from_utf8(line), String::from_utf8(usual));
        }
    }

    #[test]
    fn a_call_is_read_in_one_go_or_not_at_all() {
        let call = |text: &str| Call::read(text.as_bytes()).map(|call| (call.id, call.params));
        let usual = r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "a\"b"}}}"#;
        let (id, params) = call(usual).expect("a call");
        assert_eq!((id, &*params.name), (NumberOrString::Number(7), "read"));
        assert_eq!(params.arguments.expect("arguments")["path"], "a\"b");
        for left in [
            // What Head reads, too, and what it refuses.
            r#"{"id": 7, "params": {"name": "read"}, "method": "tools/call"}"#,
            r#"{"id": 7, "method": "tools\/call", "params": {"name": "read"}}"#,
            r#"{"id": 7, "method": "tools/list", "params": {"name": "read"}}"#,
            r#"{"id": 7, "id": 8, "method": "tools/call", "params": {"name": "read"}}"#,
            r#"{"id": null, "method": "tools/call", "params": {"name": "read"}}"#,
            r#"{"id": 7.5, "method": "tools/call", "params": {"name": "read"}}"#,
            r#"{"method": "tools/call", "params": {"name": "read"}}"#,
            r#"{"id": 7, "method": "tools/call"}"#,
            r#"{"id": 7, "method": "tools/call", "params": {"name": 1}}"#,
            r#"{"id": 7, "method": "tools/call", "params": {"name": "read"}, "error": 1}"#,
            r#"{"id": 7, "method": "tools/call", "params": {"name": "read"}} x"#,
            r#"{"id": 7, "method": "tools/call", "params": {"name": "read"}"#,
            r#"["2.0", 7, "tools/call", {"name": "read"}]"#,
            "",
        ] {
            assert!(call(left).is_none(), "{left}");
        }
        assert!(
            Call::read(
                b"{\"id\": 7, \"method\": \"tools/call\", \"params\": {\"name\": \"\xff\"}}"
            )
            .is_none()
        );
    }

    /// As serde writes it.
    fn usual(id: &RequestId, result: &CallToolResult) -> String {
        let message = Answer { jsonrpc: "2.0", id, result };
        serde_json::to_string(&message).expect("it can be written") + "\n"
    }

    #[test]
    fn an_answer_is_written_as_serde_writes_it() {
        let text = "tab\t \"quotes\" back\\slash \u{8}\u{c}\u{0}\u{1f}\u{7f} ünï \u{2028} 🦀\r\n";
        let mut full = CallToolResult::success(vec![
            ContentBlock::text(text),
            ContentBlock::image("AAAA", "image/png"),
            ContentBlock::text(""),
        ]);
        full.structured_content = Some(json!({"a": [1, "x\ny"]}));
        full.meta = Some(MetaObject(json!({"k": 1}).as_object().cloned().unwrap_or_default()));
        let mut bare = CallToolResult::error(Vec::new());
        bare.result_type = None;
        for result in [full, bare] {
            for id in [NumberOrString::Number(7), NumberOrString::String("a\"b".into())] {
                let line = call_answer(&id, &result);
                assert_eq!(String::from_utf8(line).expect("text"), usual(&id, &result));
            }
        }
    }
}
