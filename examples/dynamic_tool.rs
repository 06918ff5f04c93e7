//! A tool created at run time: it implements `Tool`, and the registry creates it on first use.
//!
//!     cargo run --example dynamic_tool

use std::{collections::BTreeMap, sync::Arc};

use haft::{
    Access, BoxFuture, Call, CallRequest, Context, Gate, Power, Registry, Reply, Schema, Tool,
    ToolError, ToolSpec,
};
use serde_json::{Value, json};

/// Explains words of a glossary that is only known at run time.
struct Glossary {
    spec: ToolSpec,
    entries: BTreeMap<&'static str, &'static str>,
}

impl Glossary {
    /// In a real program this would ask a server or read a file.
    async fn load() -> Result<Arc<dyn Tool>, ToolError> {
        let entries = BTreeMap::from([
            ("haft", "the handle of a tool"),
            ("tang", "the part of a blade that sits in the haft"),
        ]);
        let words: Vec<&str> = entries.keys().copied().collect();
        let schema = Schema::from_value(json!({
            "type": "object",
            "properties": {"word": {"enum": words, "description": "The word to look up."}},
            "required": ["word"],
            "additionalProperties": false,
        }))?;
        let description = format!("Explains one of the words {}.", words.join(", "));
        let spec = ToolSpec::declared("the glossary", "explain_word", description, schema);
        Ok(Arc::new(Self { spec: spec.needs([Power::Free]), entries }))
    }
}

impl Tool for Glossary {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(Vec::new())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(async move {
            let word = call.raw_input()["word"].as_str().unwrap_or_default();
            let meaning = self.entries.get(word);
            meaning
                .map(|meaning| Reply::text(*meaning).title(word))
                .ok_or_else(|| ToolError::not_found(format!("the glossary has no word `{word}`")))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::default();
    registry.define("explain_word", Glossary::load)?;
    // A tool that cannot be created does not affect the others.
    registry.define("broken", || async { Err(ToolError::unavailable("its server is down")) })?;
    let gate = Gate::builder(registry.clone()).build();

    let call = |input: Value| CallRequest::new("explain_word", input, Context::new("demo"));
    let outcome = gate.call(call(json!({"word": "haft"}))).await;
    assert_eq!(outcome.content, "the handle of a tool");
    print(&outcome.content)?;
    let outcome = gate.call(call(json!({"word": "hilt"}))).await;
    print(&outcome.content)?;

    let definitions = registry.definitions(gate.workspace_info()).await;
    assert_eq!(definitions.specs.len(), 1);
    print(&definitions.warnings.join("\n"))?;
    Ok(())
}

fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{text}")
}
