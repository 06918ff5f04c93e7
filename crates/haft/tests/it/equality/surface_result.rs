//! The result of a call from one surface, without values that differ in each call.

use haft::Schema;
use serde_json::{Map, Value};

use crate::fixture::Fixture;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SurfaceResult {
    title: String,
    content: String,
    /// Kind, message and hint.
    error: Option<Value>,
    repairs: Vec<String>,
    data: Option<Value>,
    metadata: Map<String, Value>,
    attachments: Vec<Attached>,
    is_cut: bool,
    /// A protocol error instead of a result.
    is_refusal: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Attached {
    mime: String,
    /// `None` over MCP, whose content blocks have no names.
    name: Option<String>,
    data: String,
}

/// Source of the result, which decides what it contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultSource {
    Outcome,
    Mcp,
}

impl SurfaceResult {
    /// An outcome as JSON, from an embedding program or from `--json`.
    pub(super) fn of_outcome(outcome: &Value, fixture: &Fixture) -> Self {
        let outcome = settled(outcome, fixture, outcome["output_id"].as_str());
        Self {
            title: text(&outcome["title"]),
            content: text(&outcome["content"]),
            error: present(&outcome["error"]),
            repairs: texts(&outcome["repairs"]),
            data: present(&outcome["data"]),
            metadata: object(&outcome["metadata"]),
            attachments: list(&outcome["attachments"]).iter().map(attached).collect(),
            is_cut: outcome["output_id"].is_string(),
            is_refusal: false,
        }
    }

    /// The answer to `tools/call`.
    #[track_caller]
    pub(super) fn of_answer(answer: &Value, fixture: &Fixture) -> Self {
        let refusal = &answer["error"];
        if refusal.is_object() {
            return Self::of_refusal(&settled(refusal, fixture, None));
        }
        let rest = &answer["result"]["_meta"]["haft/outcome"];
        assert!(rest.is_object(), "no outcome: {answer}");
        let result = settled(&answer["result"], fixture, rest["output_id"].as_str());
        let rest = &result["_meta"]["haft/outcome"];
        let mut blocks = list(&result["content"]);
        let has_text = blocks.first().is_some_and(|block| block["type"] == "text");
        let content = if has_text { text(&blocks.remove(0)["text"]) } else { String::new() };
        let error = present(&rest["error"]);
        assert_eq!(result["isError"].as_bool().unwrap_or_default(), error.is_some(), "{answer}");
        Self {
            title: text(&rest["title"]),
            content,
            error,
            repairs: texts(&rest["repairs"]),
            data: present(&result["structuredContent"]),
            metadata: object(&rest["metadata"]),
            attachments: blocks.iter().map(block).collect(),
            is_cut: rest["output_id"].is_string(),
            is_refusal: false,
        }
    }

    fn of_refusal(refusal: &Value) -> Self {
        let error = &refusal["data"];
        Self {
            title: String::new(),
            content: text(&refusal["message"]),
            error: present(error),
            repairs: Vec::new(),
            data: None,
            metadata: Map::new(),
            attachments: Vec::new(),
            is_cut: false,
            is_refusal: true,
        }
    }

    pub(super) fn error_kind(&self) -> Option<String> {
        self.error.as_ref().map(|error| text(&error["kind"]))
    }

    /// Returns the parts other than title and text.
    pub(super) fn features(&self) -> Vec<&'static str> {
        let features = [
            ("repairs", !self.repairs.is_empty()),
            ("data", self.data.is_some()),
            ("data that is kept elsewhere", self.metadata.contains_key("data_output_id")),
            ("a file", !self.attachments.is_empty()),
            ("a cut", self.is_cut),
            ("something redacted", self.content.contains("[redacted:")),
        ];
        features.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect()
    }

    /// Returns the result without repairs.
    pub(super) fn unmended(&self) -> Self {
        Self { repairs: Vec::new(), ..self.clone() }
    }

    /// Returns the result without data that only repeats the content.
    pub(super) fn structured_schema(&self, tool: &str) -> Self {
        let mut heard = self.clone();
        let schema = haft::catalogue::all()
            .find(|known| haft::Tool::name(*known) == tool)
            .and_then(|tool| haft::Tool::spec(tool).output.clone());
        if let (Some(schema), Some(data)) = (schema, &mut heard.data) {
            Schema::remove_repeated_content(&schema, data);
        }
        heard
    }

    /// Returns the parts to compare: name, this value and the other value.
    pub(super) fn parts(
        &self,
        other: &Self,
        told: ResultSource,
    ) -> Vec<(&'static str, String, String)> {
        if other.is_refusal {
            // It has no envelope: the outcome has only an error, and both are one line.
            let expected = self
                .error
                .as_ref()
                .map(|error| format!("{}; {}", text(&error["message"]), text(&error["hint"])));
            return vec![
                ("error", format!("{:?}", self.error), format!("{:?}", other.error)),
                ("message", expected.unwrap_or_default(), other.content.clone()),
            ];
        }
        let names = |heard: &Self| {
            let mut attachments = heard.attachments.clone();
            if told == ResultSource::Mcp {
                attachments.iter_mut().for_each(|attached| attached.name = None);
            }
            format!("{attachments:?}")
        };
        vec![
            ("title", self.title.clone(), other.title.clone()),
            ("content", self.content.clone(), other.content.clone()),
            ("error", format!("{:?}", self.error), format!("{:?}", other.error)),
            ("repairs", format!("{:?}", self.repairs), format!("{:?}", other.repairs)),
            ("data", shown(self.data.as_ref()), shown(other.data.as_ref())),
            ("metadata", format!("{:?}", self.metadata), format!("{:?}", other.metadata)),
            ("files", names(self), names(other)),
            ("cut", self.is_cut.to_string(), other.is_cut.to_string()),
        ]
    }
}

/// Replaces values that differ: paths, ids and file times.
fn settled(value: &Value, fixture: &Fixture, output_id: Option<&str>) -> Value {
    let mut text = value.to_string().replace(&fixture.path("").display().to_string(), "<root>/");
    // The output that existed before the call.
    let kept = std::fs::read_to_string(fixture.path("kept")).ok();
    for id in output_id.into_iter().chain(data_output_id(value)).chain(kept.as_deref()) {
        text = text.replace(id, "<output>");
    }
    let mut settled: Value = serde_json::from_str(&text).expect("it was JSON before");
    for pointer in ["/data/created", "/structuredContent/created"] {
        if let Some(created) = settled.pointer_mut(pointer).filter(|created| created.is_string()) {
            *created = "<now>".into();
        }
    }
    // A commit's id depends on its time.
    let made = ["/data", "/structuredContent"].map(|data| {
        let name =
            |part: &str| settled.pointer(&format!("{data}/{part}"))?.as_str().map(str::to_owned);
        (settled.pointer(&format!("{data}/subject")).is_some())
            .then(|| [name("hash"), name("short")])
    });
    for name in made.into_iter().flatten().flatten().flatten() {
        let text = settled.to_string().replace(&name, "<commit>");
        settled = serde_json::from_str(&text).expect("it was JSON before");
    }
    for pointer in ["/data/ms", "/structuredContent/ms"] {
        if let Some(ms) = settled.pointer_mut(pointer).filter(|ms| ms.is_number()) {
            *ms = "<time>".into();
        }
    }
    let changes = ["/data/changes", "/structuredContent/changes"];
    let changes = changes.iter().filter_map(|list| settled.pointer(list)?.as_array());
    let times = changes.flatten().filter_map(|change| change["at"].as_str().map(str::to_owned));
    for time in times.collect::<Vec<_>>() {
        let text = settled.to_string().replace(&time, "<then>");
        settled = serde_json::from_str(&text).expect("it was JSON before");
    }
    for pointer in ["/content", "/content/0/text"] {
        if let Some(Value::String(content)) = settled.pointer_mut(pointer) {
            let line = |line: &str| match line.strip_prefix("created ") {
                Some(_) => "created <now>".to_owned(),
                None => line.to_owned(),
            };
            *content = content.split('\n').map(line).collect::<Vec<_>>().join("\n");
        }
    }
    settled
}

fn data_output_id(value: &Value) -> Option<&str> {
    let metadata = value.get("metadata").or_else(|| value.pointer("/_meta/haft~1outcome/metadata"));
    metadata?.get("data_output_id")?.as_str()
}

fn attached(attachment: &Value) -> Attached {
    Attached {
        mime: text(&attachment["mime"]),
        name: Some(text(&attachment["name"])),
        data: text(&attachment["data"]),
    }
}

/// Returns the attachment in a content block.
fn block(block: &Value) -> Attached {
    let (mime, data) = match block["type"].as_str() {
        Some("resource") => (&block["resource"]["mimeType"], &block["resource"]["blob"]),
        _ => (&block["mimeType"], &block["data"]),
    };
    Attached { mime: text(mime), name: None, data: text(data) }
}

fn present(value: &Value) -> Option<Value> {
    (!value.is_null()).then(|| value.clone())
}

fn shown(value: Option<&Value>) -> String {
    value.map(Value::to_string).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
