//! JSON Schemas of inputs and outputs: generated from types or given by other programs, checked,
//! and explained when a value does not match. The only file that uses jsonschema.

mod quick;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use jsonschema::{
    ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{ToolError, nearest::nearest};

/// Keyword for further names of a property. The repair stage renames them, and no surface shows
/// them.
pub const ALIASES: &str = "x-aliases";

/// Keyword for an output property that only repeats the content. It is omitted where both are sent
/// together.
pub const IN_CONTENT: &str = "x-in-content";

/// Keyword for the one-letter option of a property on the command line, such as `"x-short" = "i"`.
/// No other surface shows it.
pub const SHORT: &str = "x-short";

/// Keyword for the kind of record that a property identifies: `change`, `output` or `session`.
/// Completion offers the existing ones, and no other surface shows it.
pub const REFERS_TO: &str = "x-refers-to";

/// Keyword for a text that is a path; see [`crate::PathInput`].
pub(crate) const PATH: &str = "x-path";

/// Foreign schemas nested deeper than this are refused: compiling them could overflow the stack.
const MAX_SCHEMA_DEPTH: usize = 64;

/// A JSON Schema (2020-12) whose root is an object. Cheap to clone. Built from its type at first
/// use; the validator too.
#[derive(Clone)]
pub struct Schema(Arc<Inner>);

struct Inner {
    make: fn() -> Value,
    /// The schema with haft's own keywords, which no surface shows.
    raw: OnceLock<Value>,
    /// The published text, if it is known without building the schema.
    text: Option<&'static str>,
    published: OnceLock<Value>,
    validator: OnceLock<Result<Validator, String>>,
}

impl Schema {
    /// The schema of a type for input: as a reader of the JSON sees it.
    pub fn of<T: JsonSchema>() -> Self {
        Self::made_by(|| generated::<T>(SchemaSettings::draft2020_12().for_deserialize()))
    }

    /// The schema of a type for output: as a receiver of the JSON sees it.
    pub fn of_output<T: JsonSchema>() -> Self {
        Self::made_by(generated_output::<T>)
    }

    /// The same schema with a known text: [`Schema::schema_text`] of an input,
    /// [`Schema::structured_schema_text`] of an output. A server that only lists its tools then
    /// builds no schemas.
    #[must_use]
    pub(crate) fn with_text(self, text: &'static str) -> Self {
        Self(Arc::new(Inner {
            raw: self.0.raw.clone(),
            text: Some(text),
            ..Inner::new(self.0.make)
        }))
    }

    /// A schema from another program (an MCP server, a manifest). It must be a valid object schema.
    ///
    /// # Errors
    /// Of kind `input`, naming the problem of the schema.
    pub fn from_value(raw: Value) -> Result<Self, ToolError> {
        if depth(&raw) > MAX_SCHEMA_DEPTH {
            let message = format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels");
            return Err(ToolError::input(message).hint("flatten the schema"));
        }
        if raw.get("type").and_then(Value::as_str) != Some("object") {
            return Err(ToolError::input("the schema's root is not `\"type\": \"object\"`")
                .hint("tools take one JSON object; wrap other values in a property"));
        }
        let schema = Self::from_raw(raw);
        match schema.validator() {
            Ok(_) => Ok(schema),
            Err(reason) => Err(ToolError::input(format!("the schema is not valid: {reason}"))
                .hint("fix the schema; it must be valid JSON Schema 2020-12")),
        }
    }

    fn made_by(make: fn() -> Value) -> Self {
        Self(Arc::new(Inner::new(make)))
    }

    fn from_raw(raw: Value) -> Self {
        let inner = Inner::new(|| Value::Null);
        Self(Arc::new(Inner { raw: OnceLock::from(raw), ..inner }))
    }

    /// The schema as surfaces publish it.
    pub fn as_value(&self) -> &Value {
        self.0.published.get_or_init(|| published(self.raw()))
    }

    /// The schema of the structured output that is sent with the content, without what
    /// [`Schema::remove_repeated_content`] removes.
    pub fn structured_schema(&self) -> Value {
        let mut schema = published(self.raw());
        if let Some(properties) = schema.get_mut("properties") {
            self.remove_repeated_content(properties);
        }
        schema
    }

    /// [`Schema::as_value`] as JSON.
    pub fn schema_text(&self) -> Cow<'static, str> {
        self.0.text.map_or_else(|| self.as_value().to_string().into(), Cow::Borrowed)
    }

    /// [`Schema::structured_schema`] as JSON.
    pub fn structured_schema_text(&self) -> Cow<'static, str> {
        self.0.text.map_or_else(|| self.structured_schema().to_string().into(), Cow::Borrowed)
    }

    /// Removes the properties of a value that only repeat the content.
    pub fn remove_repeated_content(&self, value: &mut Value) {
        if let Some(object) = value.as_object_mut() {
            for repeated in repeated(self.raw()) {
                object.shift_remove(repeated);
            }
        }
    }

    /// The schema with the keywords that only the repair stage reads.
    pub(crate) fn raw(&self) -> &Value {
        self.0.raw.get_or_init(self.0.make)
    }

    /// The properties of the root object, in the order of definition.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.as_value().get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
    }

    /// Returns true if the root object has a property of this name.
    pub fn has_property(&self, name: &str) -> bool {
        self.raw().get("properties").is_some_and(|all| all.get(name).is_some())
    }

    /// The aliases of a property of the root object.
    pub fn aliases(&self, property: &str) -> impl Iterator<Item = &str> {
        let schema = self.raw().get("properties").and_then(|all| all.get(property));
        let names = schema.and_then(|schema| schema.get(ALIASES)).and_then(Value::as_array);
        names.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The one-letter option of a property of the root object on the command line.
    pub fn short(&self, property: &str) -> Option<char> {
        let schema = self.raw().get("properties").and_then(|all| all.get(property))?;
        schema.get(SHORT)?.as_str()?.chars().next()
    }

    /// The kind of record that a property of the root object identifies; see [`REFERS_TO`].
    pub fn refers_to(&self, property: &str) -> Option<&str> {
        let schema = self.raw().get("properties").and_then(|all| all.get(property))?;
        schema.get(REFERS_TO)?.as_str()
    }

    /// Returns true if the schema of a property of the root object is the schema of a path.
    pub fn is_path(&self, property: &str) -> bool {
        let schema = self.raw().get("properties").and_then(|all| all.get(property));
        schema.is_some_and(|schema| {
            let items = schema.get("items");
            schema.get(PATH).is_some() || items.is_some_and(|items| items.get(PATH).is_some())
        })
    }

    /// Returns true if this property of the root object is required.
    pub fn is_required(&self, property: &str) -> bool {
        let required = self.as_value().get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == property))
    }

    /// All violations of a value, one line each with the field's path; empty if it matches.
    pub fn violations(&self, value: &Value) -> Vec<String> {
        if self.surely_fits(value) {
            return Vec::new();
        }
        match self.validator() {
            Ok(validator) if validator.is_valid(value) => Vec::new(),
            Ok(validator) => {
                let explained =
                    validator.iter_errors(value).map(|error| explain(&error, self.raw()));
                explained.collect()
            }
            Err(reason) => vec![format!("the tool's own schema is not valid: {reason}")],
        }
    }

    /// Returns true if a quick check shows that a value matches.
    pub(crate) fn surely_fits(&self, value: &Value) -> bool {
        quick::check(self.raw(), value) == quick::QuickResult::Fits
    }

    fn validator(&self) -> Result<&Validator, &str> {
        let built = self.0.validator.get_or_init(|| {
            jsonschema::draft202012::new(self.raw()).map_err(|error| error.to_string())
        });
        built.as_ref().map_err(String::as_str)
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.as_value())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_value().serialize(serializer)
    }
}

impl Inner {
    fn new(make: fn() -> Value) -> Self {
        Self {
            make,
            raw: OnceLock::new(),
            text: None,
            published: OnceLock::new(),
            validator: OnceLock::new(),
        }
    }
}

fn generated<T: JsonSchema>(settings: SchemaSettings) -> Value {
    // Without `$ref` every provider can use the schema as it is; only recursive types keep theirs.
    let generator = settings.with(|s| s.inline_subschemas = true).into_generator();
    let mut raw = generator.into_root_schema_for::<T>().to_value();
    if let Some(root) = raw.as_object_mut() {
        // The dialect is the same everywhere, and the Rust name of the struct helps no reader.
        root.shift_remove("$schema");
        root.shift_remove("title");
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    drop_noise(&mut raw);
    raw
}

fn generated_output<T: JsonSchema>() -> Value {
    let mut raw = generated::<T>(SchemaSettings::draft2020_12().for_serialize());
    let repeated: Vec<String> = repeated(&raw).map(str::to_owned).collect();
    if let Some(required) = raw.get_mut("required").and_then(Value::as_array_mut) {
        // They may be omitted, so receivers cannot rely on them.
        required.retain(|name| !repeated.iter().any(|repeated| name == repeated));
    }
    raw
}

/// The properties that are marked as repeating the content.
fn repeated(raw: &Value) -> impl Iterator<Item = &str> {
    let properties = raw.get("properties").and_then(Value::as_object);
    let marked = properties.into_iter().flatten();
    marked
        .filter(|(_, schema)| schema.get(IN_CONTENT) == Some(&Value::Bool(true)))
        .map(|(name, _)| name.as_str())
}

/// Removes formats like `uint32` and `"default": null`: they mean nothing to a model, cost tokens,
/// and some providers refuse them.
fn drop_noise(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.retain(|key, value| {
                drop_noise(value);
                match key.as_str() {
                    "format" => !is_number_format(value),
                    "default" => !value.is_null(),
                    _ => true,
                }
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_noise),
        _ => {}
    }
}

fn is_number_format(format: &Value) -> bool {
    let is_number =
        |name: &str| name.starts_with("uint") || name.starts_with("int") || name == "double";
    format.as_str().is_some_and(is_number)
}

/// A copy without haft's own keywords.
fn published(raw: &Value) -> Value {
    match raw {
        Value::Object(object) => {
            let is_ours = |key: &str| [ALIASES, IN_CONTENT, PATH, REFERS_TO, SHORT].contains(&key);
            let kept = object.iter().filter(|(key, _)| !is_ours(key));
            Value::Object(kept.map(|(key, value)| (key.clone(), published(value))).collect())
        }
        Value::Array(items) => items.iter().map(published).collect(),
        other => other.clone(),
    }
}

/// The nesting depth of a value, computed without recursion so that deep values cannot overflow the
/// stack.
pub(crate) fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(object) => open.extend(object.values().map(|item| (item, level + 1))),
            _ => {}
        }
    }
    deepest
}

fn explain(error: &ValidationError<'_>, schema: &Value) -> String {
    let pointer = error.instance_path().as_str();
    let path = dotted(pointer);
    let is_empty_path = matches!(error.kind(), ValidationErrorKind::MinLength { .. })
        && schema_at(schema, pointer).is_some_and(|field| field.get(PATH).is_some());
    let problem = match is_empty_path {
        true => "expected a path, got \"\"; give \".\" for the workspace itself".to_owned(),
        false => problem(error),
    };
    if path.is_empty() { problem } else { format!("{path}: {problem}") }
}

fn problem(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    let got = shown(error.instance());
    match error.kind() {
        Kind::Type { kind } => format!("expected {}, got {got}", type_words(kind)),
        Kind::Required { property } => {
            format!("missing field `{}`", property.as_str().unwrap_or_default())
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unknown_fields(unexpected)
        }
        Kind::Enum { options } => format!("expected one of {options}, got {got}"),
        Kind::Constant { expected_value } => format!("expected {expected_value}, got {got}"),
        Kind::Minimum { limit } => format!("expected at least {limit}, got {got}"),
        Kind::Maximum { limit } => format!("expected at most {limit}, got {got}"),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, got {got}"),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, got {got}"),
        Kind::MinLength { limit: 1 } => "expected some text, got \"\"".to_owned(),
        Kind::MinLength { limit } => format!("expected at least {limit} characters, got {got}"),
        Kind::MaxLength { limit } => format!("expected at most {limit} characters, got {got}"),
        Kind::MinItems { limit } => format!("expected at least {limit} items, got {got}"),
        Kind::MaxItems { limit } => format!("expected at most {limit} items, got {got}"),
        Kind::Pattern { pattern } => format!("expected text that matches `{pattern}`, got {got}"),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => closest_branch(context, &got),
        _ => format!("{error}"),
    }
}

fn unknown_fields(unexpected: &[String]) -> String {
    let names: Vec<String> = unexpected.iter().map(|name| format!("`{name}`")).collect();
    format!("unknown field{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// Explains a union by its closest branch. The message of a union says only that nothing matches.
/// The branch with the fewest violations, tags counting most, is the one the caller meant.
fn closest_branch(branches: &[Vec<ValidationError<'static>>], got: &str) -> String {
    let weight = |branch: &&Vec<ValidationError<'static>>| -> usize {
        let cost = |error: &ValidationError<'_>| match error.kind() {
            ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => 100,
            ValidationErrorKind::Type { .. } if error.instance_path().as_str().is_empty() => 50,
            _ => 1,
        };
        branch.iter().map(cost).sum()
    };
    match branches.iter().min_by_key(weight) {
        Some(branch) if !branch.is_empty() => {
            branch.iter().map(problem).collect::<Vec<_>>().join("; ")
        }
        _ => format!("{got} matches none of the allowed forms"),
    }
}

fn type_words(kind: &TypeKind) -> String {
    let words: Vec<String> = match kind {
        TypeKind::Single(one) => vec![with_article(&one.to_string())],
        TypeKind::Multiple(set) => set
            .iter()
            .map(|one| one.to_string())
            // `Option` makes null possible; mentioning it would only distract.
            .filter(|name| name != "null")
            .map(|name| with_article(&name))
            .collect(),
    };
    words.join(" or ")
}

fn with_article(name: &str) -> String {
    let article = if matches!(name, "integer" | "array" | "object") { "an" } else { "a" };
    if name == "null" { name.to_owned() } else { format!("{article} {name}") }
}

/// A value in an error message: whole if it is short, otherwise its beginning.
fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    let beginning: String = text.chars().take(MAX_CHARS).collect();
    format!("{beginning}…")
}

/// Turns `/patches/0/start_line` into `patches[0].start_line`.
fn dotted(pointer: &str) -> String {
    let mut dotted = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            dotted.push_str(&format!("[{part}]"));
        } else {
            if !dotted.is_empty() {
                dotted.push('.');
            }
            dotted.push_str(&part);
        }
    }
    dotted
}

/// The schema of the field at a pointer into a value.
fn schema_at<'a>(schema: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(schema, |schema, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        let property = schema.get("properties").and_then(|all| all.get(part));
        property.or_else(|| schema.get("items"))
    })
}

/// The known property names closest to an unknown one, for hints.
pub(crate) fn nearest_properties<'a>(schema: &'a Schema, unknown: &str) -> Vec<&'a str> {
    nearest(unknown, schema.properties().map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Sample {
        /// Where.
        #[schemars(length(min = 1), extend("x-aliases" = ["file"]))]
        path: String,
        #[schemars(range(min = 1, max = 2000))]
        limit: Option<u32>,
        #[serde(default)]
        patches: Vec<Patch>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Patch {
        start_line: u32,
    }

    #[track_caller]
    fn check(value: Value, expected: &[&str]) {
        assert_eq!(Schema::of::<Sample>().violations(&value), expected);
    }

    #[test]
    fn violations_name_the_field_and_what_was_expected() {
        check(json!({"path": "a"}), &[]);
        check(json!({"path": "a", "limit": null}), &[]);
        check(json!({}), &["missing field `path`"]);
        check(json!({"path": "a", "limit": "ten"}), &["limit: expected an integer, got \"ten\""]);
        check(json!({"path": "a", "limit": 9999}), &["limit: expected at most 2000, got 9999"]);
        check(json!({"path": ""}), &["path: expected some text, got \"\""]);
        check(json!({"path": "a", "pth": 1}), &["unknown field `pth`"]);
        check(
            json!({"path": "a", "patches": [{"start_line": "x"}]}),
            &["patches[0].start_line: expected an integer, got \"x\""],
        );
    }

    #[test]
    fn an_empty_path_gets_a_hint() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Places {
            /// One.
            #[schemars(with = "crate::PathInput", extend("x-aliases" = ["file"]))]
            one: std::path::PathBuf,
            #[serde(default)]
            #[schemars(with = "Option<crate::PathInput>")]
            other: Option<std::path::PathBuf>,
            #[serde(default)]
            #[schemars(with = "Vec<crate::PathInput>")]
            many: Vec<std::path::PathBuf>,
        }
        let schema = Schema::of::<Places>();
        assert!(!schema.as_value().to_string().contains(PATH), "{schema:?}");
        let fine = json!({"one": ".", "other": null, "many": ["a"]});
        assert!(schema.surely_fits(&fine));
        let found = schema.violations(&json!({"one": "", "other": "", "many": ["a", ""]}));
        let shown = "expected a path, got \"\"; give \".\" for the workspace itself";
        let expected = ["one", "other", "many[1]"].map(|field| format!("{field}: {shown}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let found = Schema::of::<Sample>().violations(&json!({"limit": "ten", "x": 1}));
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn published_schemas_are_clean() {
        let schema = Schema::of::<Sample>();
        let text = schema.as_value().to_string();
        for noise in ["x-aliases", "uint32", "$schema", "\"title\"", "$ref"] {
            assert!(!text.contains(noise), "{noise} in {text}");
        }
        let names: Vec<&str> = schema.properties().map(|(name, _)| name).collect();
        assert_eq!(names, ["path", "limit", "patches"], "in the order they were written");
        assert!(schema.has_property("limit") && !schema.has_property("file"));
    }

    #[test]
    fn properties_that_repeat_the_content_are_omitted_beside_it() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Found {
            #[schemars(extend("x-in-content" = true))]
            paths: Vec<String>,
            total: usize,
        }
        let schema = Schema::of_output::<Found>();
        assert_eq!(
            schema.as_value()["required"],
            json!(["total"]),
            "receivers cannot rely on the others"
        );
        assert!(schema.as_value()["properties"]["paths"].get(IN_CONTENT).is_none());
        let beside = schema.structured_schema();
        assert!(beside["properties"].get("paths").is_none(), "{beside:?}");
        assert_eq!(beside["properties"]["total"]["type"], "integer");
        let mut data = json!({"paths": ["a"], "total": 1});
        schema.remove_repeated_content(&mut data);
        assert_eq!(data, json!({"total": 1}));
    }

    #[test]
    fn a_union_is_explained_by_its_closest_branch() {
        let schema = Schema::from_value(json!({
            "type": "object",
            "properties": {"shape": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
                 "required": ["kind", "radius"]},
                {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                 "required": ["kind", "side"]},
            ]}},
        }))
        .expect("a valid schema");
        let found = schema.violations(&json!({"shape": {"kind": "square"}}));
        assert_eq!(found, ["shape: missing field `side`"]);
    }

    #[test]
    fn foreign_schemas_must_be_objects_and_valid() {
        for (bad, word) in [
            (json!({"type": "string"}), "root"),
            (json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "not valid"),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "http://h.example/x"}}}),
                "not valid",
            ),
        ] {
            let error = Schema::from_value(bad).expect_err("refused");
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn a_deep_foreign_schema_is_refused_not_compiled() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let error = Schema::from_value(deep).expect_err("refused");
        assert!(error.message().contains("deeper than 64"), "{error}");
    }
}
