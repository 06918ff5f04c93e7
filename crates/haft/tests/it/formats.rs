//! The catalogue in the format of every model API: golden files, the official libraries' types, and
//! `haft tools --format`.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft::{
    Attachment, ErrorKind, Input, Outcome, Registry, Tool, ToolError, WorkspaceInfo, catalogue,
    formats::{
        FormatOptions, ModelCallResult, ModelFormat, ToolDefinition, ToolDefinitions, calls,
        definitions, results,
    },
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::fixture::Fixture;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/python/bin/python");
const SDK_CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/formats/sdk_check.py");

/// Every format, and those that know strict also so.
fn ways() -> impl Iterator<Item = (ModelFormat, FormatOptions)> {
    ModelFormat::ALL.iter().flat_map(|format| {
        let strict = format.knows_strict().then(FormatOptions::strict);
        [Some(FormatOptions::default()), strict]
            .into_iter()
            .flatten()
            .map(|options| (*format, options))
    })
}

/// Returns the catalogue's definitions with placeholders for paths.
fn told(format: ModelFormat, options: &FormatOptions) -> ToolDefinitions {
    let registry = Registry::default();
    registry.register_all(catalogue::all()).expect("the catalogue registers");
    let anywhere = WorkspaceInfo {
        workspace: "<workspace>".into(),
        directory: "<directory>".into(),
        today: || "<date>".to_owned(),
    };
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let listed = runtime.block_on(registry.definitions(&anywhere));
    let tools: Vec<ToolDefinition> = listed.specs.iter().map(ToolDefinition::from).collect();
    definitions(format, &tools, options)
}

fn golden(format: ModelFormat, options: &FormatOptions) -> PathBuf {
    let strict = if options.strict { "-strict" } else { "" };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(format!("{format}{strict}.json"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one door: how a person asks for new golden files"
)]
fn wants_new_golden_files() -> bool {
    std::env::var_os("HAFT_UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

#[test]
fn the_catalogue_is_told_as_in_the_golden_files() {
    let mut stale = String::new();
    for (format, options) in ways() {
        let told = told(format, &options);
        let notes: Vec<String> = told.notes.iter().map(ToString::to_string).collect();
        let whole = json!({"tools": told.tools, "notes": notes});
        let text = serde_json::to_string_pretty(&whole).expect("JSON") + "\n";
        let path = golden(format, &options);
        if wants_new_golden_files() {
            std::fs::write(&path, text).expect("written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            writeln!(stale, "{}", path.display()).expect("a text takes text");
        }
    }
    assert!(
        stale.is_empty(),
        "look at the difference after HAFT_UPDATE_GOLDEN=1 cargo test -p haft --test it formats:\n{stale}"
    );
}

#[test]
fn every_tool_is_told_in_every_format() {
    for (format, options) in ways() {
        let told = told(format, &options);
        let listed = told.tools.pointer("/0/functionDeclarations").unwrap_or(&told.tools);
        let name = |tool: &Value| {
            let tool = tool.get("function").unwrap_or(tool);
            tool["name"].as_str().expect("a name").to_owned()
        };
        let names: Vec<String> = listed.as_array().expect("a list").iter().map(name).collect();
        let known: Vec<&str> = catalogue::all().map(Tool::name).collect();
        assert_eq!(names, known, "{format}");
    }
}

#[test]
fn our_own_schemas_lose_nothing_where_strict_is_not_asked() {
    for format in ModelFormat::ALL.iter().filter(|format| **format != ModelFormat::Gemini) {
        assert_eq!(told(*format, &FormatOptions::default()).notes, [], "{format}");
    }
}

/// Returns results of every kind: with files, without text, failed.
fn outcomes() -> Vec<Outcome> {
    let attachment = |mime: &str, name: &str| Attachment {
        mime: mime.to_owned(),
        name: name.to_owned(),
        data: "aGVsbG8=".to_owned(),
    };
    let mut whole = Outcome::failed("read", &ToolError::failed("nothing"));
    whole.error = None;
    whole.content = "three lines\u{0}".to_owned();
    whole.data = Some(json!({"lines": 3}));
    let mut with_files = whole.clone();
    with_files.attachments = vec![
        attachment("image/png", "a.png"),
        attachment("application/pdf", "b.pdf"),
        attachment("text/plain", "c.txt"),
        attachment("application/zip", "d.zip"),
        attachment("audio/wav", "e.wav"),
    ];
    let mut only_a_file = with_files.clone();
    only_a_file.content.clear();
    only_a_file.attachments.truncate(1);
    let mut silent = whole.clone();
    silent.content.clear();
    silent.data = None;
    let failed = Outcome::failed("read", &ToolError::new(ErrorKind::Timeout, "too slow"));
    vec![whole, with_files, only_a_file, silent, failed]
}

fn told_results(format: ModelFormat) -> Vec<Value> {
    let outcomes = outcomes();
    let ids: Vec<String> = (0..outcomes.len()).map(|number| format!("call_{number}")).collect();
    let together: Vec<ModelCallResult<'_>> = outcomes
        .iter()
        .zip(&ids)
        .map(|(outcome, id)| ModelCallResult { id, name: "read", outcome })
        .collect();
    results(format, &together, &told(format, &FormatOptions::default()).names)
}

/// Passes everything to a Python program that checks it against the types of the official
/// libraries, and returns the responses that it builds with them.
fn ask_the_libraries() -> Value {
    assert!(Path::new(PYTHON).exists(), "{PYTHON} is missing: run cargo xtask setup");
    let definitions: Vec<Value> = ways()
        .map(|(format, options)| json!({"format": format.name(), "strict": options.strict, "tools": told(format, &options).tools}))
        .collect();
    let results: Vec<Value> = ModelFormat::ALL
        .iter()
        .map(|format| json!({"format": format.name(), "results": told_results(*format)}))
        .collect();
    let input = json!({"definitions": definitions, "results": results});
    let mut command = Command::new(PYTHON);
    command.arg(SDK_CHECK).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python runs");
    let mut stdin = child.stdin.take().expect("piped");
    // Ignore a broken pipe: a program that fails early reports its own error.
    let _ = stdin.write_all(input.to_string().as_bytes());
    drop(stdin);
    let done = child.wait_with_output().expect("python ends");
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{words}");
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {words}"))
}

#[test]
fn the_official_libraries_take_what_we_write_and_we_read_what_they_write() {
    let answer = ask_the_libraries();
    assert_eq!(answer["n_definitions"], ways().count() * catalogue::all().count());
    for format in ModelFormat::ALL {
        let names = told(*format, &FormatOptions::default()).names;
        let responses = answer["responses"][format.name()].as_array().expect("a list");
        assert!(!responses.is_empty(), "{format}");
        for response in responses {
            let found = calls(*format, response, &names).expect("a message");
            let shown: Vec<String> = found
                .into_iter()
                .map(|call| {
                    let call = call.expect("it is whole");
                    let input = match call.input {
                        Input::Value(value) => value,
                        Input::Text(text) => serde_json::from_str(&text).expect("JSON"),
                    };
                    format!("{} {input}", call.name)
                })
                .collect();
            assert_eq!(shown, [r#"read {"path":"a.txt"}"#, "list {}"], "{format}: {response}");
        }
    }
}

#[test]
fn haft_tools_prints_what_goes_into_a_request() {
    let fixture = Fixture::new();
    for (format, options) in ways() {
        let mut arguments = vec!["tools", "--format", format.name()];
        arguments.extend(options.strict.then_some("--strict"));
        let ran = fixture.run(&arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        let told = told(format, &options);
        let n_notes = ran.err.lines().filter(|line| line.starts_with("warning: ")).count();
        assert_eq!(n_notes, told.notes.len(), "{ran:?}");
        let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
        let names = |tools: &Value| -> Vec<String> {
            let listed = tools
                .pointer("/0/functionDeclarations")
                .unwrap_or(tools)
                .as_array()
                .expect("a list");
            listed
                .iter()
                .map(|tool| tool.get("function").unwrap_or(tool)["name"].to_string())
                .collect()
        };
        assert_eq!(names(&printed), names(&told.tools));
        assert!(ran.out.starts_with("[\n  {\n"), "for eyes: {}", ran.out);
        assert!(!ran.out.contains("${"), "a model never reads a template");
    }
}

#[test]
fn haft_tools_shows_a_profile_its_tools_only() {
    let fixture = Fixture::new();
    for format in ["anthropic", "openai", "openai-responses", "gemini", "mcp"] {
        let all = fixture.run(&["tools", "--format", format]);
        assert!(all.out.contains("\"write\""), "{format}");
        let few = fixture.run(&["tools", "--format", format, "--profile", "researcher"]);
        assert_eq!(few.code, 0, "{few:?}");
        assert!(
            few.out.contains("\"read\"") && !few.out.contains("\"write\""),
            "{format}: {few:?}"
        );
        let none = fixture.run(&["tools", "--format", format, "--profile", "nobody"]);
        assert_eq!(none.code, 2, "{none:?}");
    }
    let denied = Fixture::new().user_config("deny = [\"grep\"]");
    let ran = denied.run(&["tools", "--format", "openai"]);
    assert!(!ran.out.contains("\"name\": \"grep\""), "{}", ran.out);
    assert!(ran.out.contains("\"name\": \"glob\""), "{}", ran.out);
}

#[test]
fn strict_is_refused_where_it_means_nothing() {
    let fixture = Fixture::new();
    for format in ["json", "markdown", "mcp", "gemini"] {
        let ran = fixture.run(&["tools", "--format", format, "--strict"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(&format!("the format {format} has no strict form")), "{ran:?}");
        assert!(ran.err.contains("anthropic, openai, openai-responses"), "{ran:?}");
    }
    let ran = fixture.run(&["tools", "--format", "llama"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("openai-responses"), "{ran:?}");
}
