//! Rules that every tool must follow. A new tool is checked without a new test.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::Write,
    path::{Path, PathBuf},
};

use haft_core::{Access, Schema, StaticTool, Tool, WorkspaceInfo};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn tools() -> Vec<&'static StaticTool> {
    let tools: Vec<_> = haft_tools::all().collect();
    assert!(!tools.is_empty());
    tools
}

#[test]
fn names_are_unique_and_short_and_titles_are_there() {
    let mut seen = BTreeSet::new();
    for tool in tools() {
        let spec = tool.spec();
        assert!(seen.insert(spec.name.clone()), "two tools are called `{}`", spec.name);
        assert!(spec.name.len() <= 64, "{}", spec.name);
        assert!(!spec.title.trim().is_empty(), "{} has no title", spec.name);
        assert!(spec.description.len() >= 40, "{} has too short a description", spec.name);
    }
}

/// Lists show only the first line of a description.
#[test]
fn descriptions_begin_with_a_short_sentence() {
    for tool in tools() {
        let first = tool.spec().description.lines().next().unwrap_or_default();
        let length = first.chars().count();
        assert!(length <= 80, "{}: its first line has {length} characters", tool.name());
        assert!(first.ends_with(['.', ':']), "{}: its first line does not end", tool.name());
    }
}

#[test]
fn the_registry_takes_them_all() {
    let registry = haft_core::Registry::default();
    registry.register_all(haft_tools::all()).expect("good and unique names");
    assert_eq!(registry.names().len(), tools().len());
}

#[test]
fn input_schemas_are_closed_objects_of_2020_12() {
    for tool in tools() {
        let schema = tool.spec().input.as_value();
        let valid = jsonschema::draft202012::meta::validate(schema);
        assert!(valid.is_ok(), "{}: {:?}", tool.name(), valid.err());
        assert_eq!(schema["type"], "object", "{}", tool.name());
        assert_eq!(
            schema["additionalProperties"],
            false,
            "{}: put #[serde(deny_unknown_fields)] on its input, or misspelt fields are ignored",
            tool.name()
        );
    }
}

#[test]
fn output_schemas_are_objects_of_2020_12() {
    for tool in tools() {
        let Some(schema) = &tool.spec().output else { continue };
        let valid = jsonschema::draft202012::meta::validate(schema.as_value());
        assert!(valid.is_ok(), "{}: {:?}", tool.name(), valid.err());
        assert_eq!(schema.as_value()["type"], "object", "{}", tool.name());
    }
}

#[test]
fn schemas_txt_matches_the_types() {
    for tool in tools() {
        let spec = tool.spec();
        check_written(&spec.name, spec.input.schema_text(), spec.input.as_value());
        if let Some(output) = &spec.output {
            check_written(&spec.name, output.structured_schema_text(), &output.structured_schema());
        }
    }
}

#[track_caller]
fn check_written(tool: &str, text: Cow<'static, str>, made: &Value) {
    let made = made.to_string();
    assert_eq!(text, made, "`{tool}` has changed: run `cargo xtask docs`");
    let is_written = matches!(text, Cow::Borrowed(_));
    assert!(is_written, "`{tool}` is missing in src/schemas.txt: run `cargo xtask docs`");
}

#[test]
fn every_property_is_described() {
    for tool in tools() {
        let mut missing = Vec::new();
        find_undescribed(tool.spec().input.as_value(), tool.name(), &mut missing);
        assert!(missing.is_empty(), "without a doc comment: {missing:?}");
    }
}

fn find_undescribed(schema: &Value, path: &str, missing: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            missing.push(path.clone());
        }
        find_undescribed(property, &path, missing);
        find_undescribed(&property["items"], &path, missing);
    }
    for union in ["anyOf", "oneOf"] {
        for branch in schema[union].as_array().into_iter().flatten() {
            find_undescribed(branch, path, missing);
        }
    }
}

#[test]
fn descriptions_have_no_unresolved_variable() {
    let workspace_info = WorkspaceInfo {
        workspace: "/w".into(),
        directory: "/w".into(),
        today: || "2026-11-15".to_owned(),
    };
    for tool in tools() {
        let filled = workspace_info.describe(tool.spec());
        let text = filled.unwrap_or_else(|why| panic!("{}: {why}", tool.name()));
        assert!(!text.contains("${"), "{}", tool.name());
        for (name, _) in &tool.spec().variables {
            let is_haft = ["workspace", "directory", "date"].contains(&name.as_ref());
            assert!(!is_haft, "{}: `${{{name}}}` is haft's own variable", tool.name());
        }
    }
}

#[test]
fn a_minimal_input_fits_the_schema_and_decodes() {
    for tool in tools() {
        let minimal = minimal_object(tool.spec().input.as_value());
        let violations = tool.spec().input.violations(&minimal);
        assert!(violations.is_empty(), "{}: {violations:?} for {minimal}", tool.name());
        let judged = tool.access(&minimal);
        assert!(judged.is_ok(), "{}: {:?} for {minimal}", tool.name(), judged.err());
    }
}

/// Names of fields that are always paths.
const PATH_FIELDS: &[&str] = &["path", "paths", "file", "directory", "workdir"];

/// Refuses empty paths: they would mean the workspace, which the caller probably did not intend.
#[test]
fn no_tool_takes_an_empty_path() {
    for tool in tools() {
        let spec = tool.spec();
        for (name, property) in spec.input.properties() {
            let is_list = property["type"] == "array";
            let kind = if is_list { &property["items"]["type"] } else { &property["type"] };
            if *kind != json!("string") && *kind != json!(["string", "null"]) {
                continue;
            }
            let mut input = minimal_object(spec.input.as_value());
            input[name] = if is_list { json!([""]) } else { json!("") };
            let violations = spec.input.violations(&input);
            let is_refused =
                violations.iter().any(|why| why.contains("give \".\" for the workspace"));
            let is_path = PATH_FIELDS.contains(&name);
            let how = "put #[schemars(with = \"haft_core::PathInput\")] on it";
            assert!(is_refused || !is_path, "{}.{name} takes an empty path: {how}", spec.name);
            let touched = tool.access(&input).unwrap_or_default();
            let is_empty = |access: &Access| matches!(access, Access::Read(path) | Access::Write(path) if path.as_os_str().is_empty());
            assert!(
                is_refused || !touched.iter().any(is_empty),
                "{}.{name} is a path and may be empty: {how}",
                spec.name
            );
        }
    }
}

/// Reference pages and models show the examples, so each must be a call that the gate accepts.
#[test]
fn every_tool_has_an_example_that_fits_its_schema_and_decodes() {
    for tool in tools() {
        let schema = tool.spec().input.as_value();
        let examples = schema["examples"].as_array().map(Vec::as_slice).unwrap_or_default();
        let how = "put #[schemars(example = json!({…}))] on its input";
        assert!(!examples.is_empty(), "{} has no example: {how}", tool.name());
        for example in examples {
            let violations = tool.spec().input.violations(example);
            assert!(violations.is_empty(), "{}: {violations:?} for {example}", tool.name());
            let judged = tool.access(example);
            assert!(judged.is_ok(), "{}: {:?} for {example}", tool.name(), judged.err());
        }
    }
}

fn minimal_object(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields = required.map(|name| (name.to_owned(), minimal(&schema["properties"][name])));
    Value::Object(fields.collect())
}

fn minimal(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    if let Some(branch) = schema["anyOf"].get(0).or_else(|| schema["oneOf"].get(0)) {
        return minimal(branch);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("string") => {
            let length = schema["minLength"].as_u64().unwrap_or(1);
            json!("x".repeat(usize::try_from(length).expect("a short text")))
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") if schema["minItems"].as_u64().unwrap_or(0) > 0 => {
            json!([minimal(&schema["items"])])
        }
        Some("array") => json!([]),
        _ => minimal_object(schema),
    }
}

#[test]
fn effects_are_never_below_the_needs() {
    for tool in tools() {
        let spec = tool.spec();
        for need in &spec.needs {
            assert!(spec.effect >= need.power.effect(), "{} understates its effect", spec.name);
        }
    }
}

/// Checks each tool's needs against tests/permissions.txt, so that a wider permission shows up in
/// review. To accept a change, put the printed text into that file.
#[test]
fn permissions_are_as_reviewed() {
    let mut actual = String::new();
    for tool in tools() {
        let spec = tool.spec();
        let mut needs: Vec<String> = spec
            .needs
            .iter()
            .map(|need| format!("{}{}", need.power, if need.optional { "?" } else { "" }))
            .collect();
        needs.dedup();
        let profiles = match tool.profiles() {
            [] => String::new(),
            profiles => format!(", in {}", profiles.join(" ")),
        };
        writeln!(actual, "{}: {} ({}){profiles}", spec.name, needs.join(", "), spec.effect)
            .expect("writing to a string does not fail");
    }
    assert_eq!(actual, include_str!("permissions.txt"), "the actual text is:\n{actual}");
}

/// A tool file that is not listed would silently be absent.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the sources; no tool does")]
fn every_tool_file_is_listed_under_its_name_and_group() {
    let listed: BTreeSet<(String, String)> = tools()
        .iter()
        .map(|tool| (tool.spec().group.to_string(), tool.name().to_owned()))
        .collect();
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a source folder");
        entries.map(|entry| entry.expect("a readable entry").path()).collect()
    };
    let mut files = BTreeSet::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for group in entries(&source).into_iter().filter(|path| path.is_dir()) {
        for file in entries(&group).into_iter().filter(|path| has_extension(path, "rs")) {
            // Code that the tools of a group share has no .txt file.
            if file.with_extension("txt").is_file() {
                files.insert((stem(&group), stem(&file)));
            } else {
                let text = std::fs::read_to_string(&file).expect("a source file");
                assert!(!text.contains("#[tool"), "{} has a tool but no .txt", file.display());
            }
        }
    }
    assert_eq!(files, listed, "left: the files, right: the tools that the groups list");
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "(\\.\\./|/|~|\\x00|C:\\\\){0,3}[a-z.]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Generates arbitrary values under the real property names of a tool, so that some of them decode.
fn near_input(schema: Schema) -> impl Strategy<Value = Value> {
    let names: Vec<String> = schema.properties().map(|(name, _)| name.to_owned()).collect();
    let base = minimal_object(schema.as_value());
    prop::collection::vec(any_json(), names.len()).prop_flat_map(move |values| {
        let (names, base) = (names.clone(), base.clone());
        prop::collection::vec(any::<bool>(), names.len()).prop_map(move |taken| {
            let mut fields: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
            for ((name, value), taken) in names.iter().zip(&values).zip(taken) {
                if taken {
                    fields.insert(name.clone(), value.clone());
                }
            }
            Value::Object(fields)
        })
    })
}

#[test]
fn access_never_panics_on_any_input() {
    let mut runner = proptest::test_runner::TestRunner::default();
    for tool in tools() {
        let inputs = prop_oneof![any_json(), near_input(tool.spec().input.clone())];
        let judged = runner.run(&inputs, |input| {
            let judge = std::panic::AssertUnwindSafe(|| tool.access(&input).is_ok());
            let judged = std::panic::catch_unwind(judge);
            prop_assert!(judged.is_ok(), "{} panicked", tool.name());
            Ok(())
        });
        assert!(judged.is_ok(), "{}: {judged:?}", tool.name());
    }
}
