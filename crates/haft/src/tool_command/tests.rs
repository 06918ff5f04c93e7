//! From schemas to argument lines and back.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const TAKEN: &[&str] = &["json", "config", "help"];

fn schema(value: Value) -> Schema {
    Schema::from_value(value).expect("a valid schema")
}

fn parse(schema: &Schema, words: &[String]) -> Result<Value, String> {
    let tool = ToolCommand::of(schema, TAKEN);
    let spec = ToolSpec::declared("test", "t", "Tests.\n\nMore.", schema.clone());
    let command = tool.command(&spec, &spec.description).no_binary_name(true);
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    tool.input(&matches, || Ok("from stdin".to_owned())).map_err(|error| error.to_string())
}

fn sample() -> Schema {
    schema(json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "What to look for."},
            "max_results": {"type": ["integer", "null"], "default": 100, "minimum": 1, "maximum": 500},
            "mode": {"enum": ["fast", "slow"]},
            "ratio": {"type": "number"},
            "hidden": {"type": "boolean", "default": true},
            "all": {"type": "boolean", "default": false},
            "sure": {"type": ["boolean", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "patches": {"type": "array", "items": {"type": "object"}},
            "json": {"type": "string"},
            "depth": {"type": "integer"},
        },
        "required": ["pattern", "depth"],
    }))
}

#[track_caller]
fn check(line: &str, expected: Value) {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    assert_eq!(parse(&sample(), &words), Ok(expected), "{line}");
}

#[test]
fn an_optional_path_may_stand_last_and_options_answer_to_their_aliases() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "default": "."},
            "pattern": {"type": "string"},
            "max_results": {"type": "integer", "x-aliases": ["limit", "maxResults", "json", "path"]},
            "ignored": {"type": "boolean", "default": false, "x-aliases": ["no_ignore", "limit"]},
        },
        "required": ["pattern"],
    }));
    for (line, expected) in [
        ("x", json!({"pattern": "x"})),
        ("x src", json!({"path": "src", "pattern": "x"})),
        ("x --path src", json!({"path": "src", "pattern": "x"})),
        ("--limit 3 x src", json!({"path": "src", "pattern": "x", "max_results": 3})),
        ("x --no-ignore", json!({"pattern": "x", "ignored": true})),
    ] {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&schema, &words), Ok(expected), "{line}");
    }
    let both = ["x", "src", "--path", "lib"].map(str::to_owned);
    assert!(parse(&schema, &both).is_err());
    let usage = ToolCommand::of(&schema, TAKEN).usage("grep");
    assert_eq!(usage, "haft grep <PATTERN> [PATH] [--max-results <MAX_RESULTS>] [--ignored]");
}

#[test]
fn required_words_are_positional_and_the_rest_are_options() {
    check("x 3", json!({"pattern": "x", "depth": 3}));
    check("x -3", json!({"pattern": "x", "depth": -3}));
    check("--max-results 5 x 3", json!({"pattern": "x", "max_results": 5, "depth": 3}));
    check("x 3 --max-results -5", json!({"pattern": "x", "max_results": -5, "depth": 3}));
    check(
        "x 3 --mode slow --ratio -.5",
        json!({"pattern": "x", "mode": "slow", "ratio": -0.5, "depth": 3}),
    );
    check("x 3 --tags a --tags -b", json!({"pattern": "x", "tags": ["a", "-b"], "depth": 3}));
    check("x 3 --patches [{\"a\":1}]", json!({"pattern": "x", "patches": [{"a": 1}], "depth": 3}));
    check("x 3 --patches {\"a\":1}", json!({"pattern": "x", "patches": [{"a": 1}], "depth": 3}));
    check("-- -x 3", json!({"pattern": "-x", "depth": 3}));
}

#[test]
fn switches_say_no_only_where_that_differs_from_silence() {
    check("x 3 --all", json!({"pattern": "x", "all": true, "depth": 3}));
    check("x 3 --no-hidden", json!({"pattern": "x", "hidden": false, "depth": 3}));
    check("x 3 --no-hidden --hidden", json!({"pattern": "x", "hidden": true, "depth": 3}));
    check("x 3 --no-sure", json!({"pattern": "x", "sure": false, "depth": 3}));
    assert!(parse(&sample(), &["x".into(), "3".into(), "--no-all".into()]).is_err());
}

#[test]
fn an_option_that_haft_has_itself_gets_another_name() {
    check("x 3 --input-json y", json!({"pattern": "x", "json": "y", "depth": 3}));
    let usage = ToolCommand::of(&sample(), TAKEN).usage("t");
    assert!(usage.contains("[--input-json <JSON>]"), "{usage}");
}

#[test]
fn names_that_collide_stay_apart() {
    let names = ["json", "input_json", "max_n", "maxN", "max-n", "no_x", "x", "", "ä"];
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "boolean"}))).collect();
    let schema = schema(json!({"type": "object", "properties": properties}));
    let flags = flags(&schema, TAKEN);
    assert_eq!(
        flags,
        [
            "input-input-json",
            "input-json",
            "max-n",
            "maxn",
            "input-max-n",
            "no-x",
            "x",
            "input-",
            "ä"
        ]
    );
    ToolCommand::of(&schema, TAKEN).fields.iter().for_each(|field| {
        assert_ne!(field.negation.as_deref(), Some("no-x"), "taken by `no_x`");
    });
}

#[test]
fn a_last_required_list_of_texts_takes_the_remaining_words() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "force": {"type": "boolean", "default": false},
            "paths": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["to", "paths"],
    }));
    let words: Vec<String> = ["there", "a", "--force", "b"].map(str::to_owned).to_vec();
    let expected = json!({"to": "there", "force": true, "paths": ["a", "b"]});
    assert_eq!(parse(&schema, &words), Ok(expected));
    assert_eq!(ToolCommand::of(&schema, TAKEN).usage("t"), "haft t <TO> <PATHS>... [--force]");
}

#[test]
fn one_text_field_reads_standard_input() {
    check("- 3", json!({"pattern": "from stdin", "depth": 3}));
    let both: Vec<String> = ["-", "3", "--input-json", "-"].map(str::to_owned).to_vec();
    let error = parse(&sample(), &both).expect_err("two readers");
    assert_eq!(error, "`pattern` and `json` both read standard input");
}

#[test]
fn what_does_not_parse_is_told_with_its_argument() {
    for (words, expected) in [
        (vec!["x", "ten"], "invalid value 'ten' for '<DEPTH>': expected a whole number"),
        (vec!["x", "3", "--mode", "medium"], "[possible values: fast, slow]"),
        (
            vec!["x", "3", "--patches", "[{"],
            "invalid value '[{' for '--patches <PATCHES>': expected JSON",
        ),
        (vec!["x"], "<DEPTH>"),
        (vec!["x", "3", "--max-result", "5"], "--max-results"),
    ] {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let error = parse(&sample(), &words).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn help_shows_default_and_range() {
    let spec = ToolSpec::declared("test", "t", "Tests.\n\nMore.", sample());
    let help = ToolCommand::of(&sample(), TAKEN).command(&spec, "Tests.").render_help().to_string();
    assert!(help.contains("[default: 100] [1 to 500]"), "{help}");
    assert!(help.contains("What to look for."), "{help}");
    assert!(help.contains("(field `json`; --json is taken)"), "{help}");
}

/// A property of some kind, with a value that fits it.
fn property() -> impl Strategy<Value = (Value, Value)> {
    // Empty lists and a lone dash are what a command line cannot say; `haft call` can.
    let text = || "[ -~äß\n]{0,9}".prop_filter("stdin", |text| text != FROM_STDIN);
    let texts = || prop::collection::vec(text(), 1..4);
    prop_oneof![
        text().prop_map(|value| (json!({"type": "string"}), json!(value))),
        any::<i64>().prop_map(|value| (json!({"type": ["integer", "null"]}), json!(value))),
        (-1e9..1e9f64).prop_map(|value| (json!({"type": "number"}), json!(value))),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        prop_oneof![Just("on"), Just("-off")]
            .prop_map(|value| (json!({"enum": ["on", "-off"]}), json!(value))),
        (1..3i64).prop_map(|value| (json!({"oneOf": [{"const": 1}, {"const": 2}]}), json!(value))),
        texts().prop_map(|value| (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(value)
        )),
        prop::collection::vec(any::<i32>(), 1..4).prop_map(|value| (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!(value)
        )),
        texts().prop_map(|value| (json!({"type": "object"}), json!({"texts": value}))),
        texts().prop_map(|value| (json!({"type": ["string", "array"]}), json!(value))),
        text().prop_map(|value| (json!(true), json!(value))),
    ]
}

/// Typed text for a value.
fn typed(field: &Field, value: &Value) -> Vec<String> {
    let word = |value: &Value| match value {
        Value::String(text) if field.kind != Kind::Loose => text.clone(),
        other => other.to_string(),
    };
    let option = |word: String| format!("--{}={word}", field.flag);
    match (field.place, value) {
        (ArgumentPlace::Words, Value::Array(items)) => items.iter().map(word).collect(),
        (ArgumentPlace::Word | ArgumentPlace::Words, value) => vec![word(value)],
        (ArgumentPlace::Flag, Value::Bool(true)) => vec![format!("--{}", field.flag)],
        (ArgumentPlace::Flag, Value::Bool(false)) => vec![format!("--no-{}", field.flag)],
        (ArgumentPlace::Flag, Value::Array(items)) if matches!(field.kind, Kind::List(_)) => {
            items.iter().map(word).map(option).collect()
        }
        (ArgumentPlace::Flag | ArgumentPlace::FlagOrWord, value) => vec![option(word(value))],
    }
}

proptest! {
    /// Whatever can be said on a command line arrives as it was meant.
    #[test]
    fn what_is_typed_arrives(
        properties in prop::collection::vec(("[a-c][a-z_]{0,5}", property(), any::<bool>()), 0..7),
    ) {
        let mut schemas = Map::new();
        let mut input = Map::new();
        let mut required = Vec::new();
        for (name, (schema, value), is_required) in properties {
            if !schemas.contains_key(&name) {
                if is_required { required.push(name.clone()); }
                schemas.insert(name.clone(), schema);
                input.insert(name, value);
            }
        }
        let schema = schema(json!({"type": "object", "properties": schemas, "required": required}));
        let tool = ToolCommand::of(&schema, TAKEN);
        let lost_negation = |f: &Field| f.kind == Kind::Boolean && f.negation.is_none();
        prop_assume!(!tool.fields.iter().any(lost_negation));

        let line = |places: &[ArgumentPlace]| -> Vec<String> {
            let fields = tool.fields.iter().filter(|field| places.contains(&field.place));
            fields.flat_map(|field| typed(field, &input[&field.name])).collect()
        };
        let mut words = line(&[ArgumentPlace::Flag]);
        words.push("--".to_owned());
        words.extend(line(&[ArgumentPlace::Word, ArgumentPlace::Words]));
        prop_assert_eq!(parse(&schema, &words), Ok(Value::Object(input.clone())), "{:?}", words);
    }
}

#[test]
fn short_options_of_the_catalogue_are_unique_and_free() {
    for tool in haft_tools::all() {
        let spec = haft_core::Tool::spec(tool);
        let form = ToolCommand::of(&spec.input, &[]);
        let mut used = vec!['h', 'V'];
        used.extend(crate::globals::options().iter().filter_map(clap::Arg::get_short));
        for field in &form.fields {
            // As it is written: an unusable letter would be dropped.
            let Some(short) = spec.input.short(&field.name) else { continue };
            let name = format!("-{short} of `{}`, field `{}`", spec.name, field.name);
            assert!(short.is_ascii_alphabetic(), "{name} is not a letter");
            assert!(!used.contains(&short), "{name} is taken");
            assert!(
                matches!(field.place, ArgumentPlace::Flag | ArgumentPlace::FlagOrWord),
                "{name}: no option"
            );
            used.push(short);
        }
        // clap checks the same and more.
        form.command(spec, "").debug_assert();
    }
}

#[test]
fn letters_that_cannot_be_used_are_dropped() {
    let letter = |short: &str| json!({"type": "string", "x-short": short});
    let spec = json!({"type": "object", "properties": {
        "a": letter("x"), "b": letter("x"), "c": letter("h"), "d": letter("-"), "e": letter(""),
    }});
    let form = ToolCommand::of(&schema(spec), &[]);
    let letters: Vec<Option<char>> = form.fields.iter().map(|field| field.short).collect();
    assert_eq!(letters, [Some('x'), None, None, None, None]);
}

#[test]
fn short_options_are_read_like_long_ones() {
    let tool = haft_tools::all().find(|tool| haft_core::Tool::name(*tool) == "grep").expect("grep");
    let spec = haft_core::Tool::spec(tool);
    let form = ToolCommand::of(&spec.input, &[]);
    let read = |words: &[&str]| {
        let matches = form.command(spec, "").try_get_matches_from(words).expect("it parses");
        form.input(&matches, || unreachable!("nothing reads standard input")).expect("an input")
    };
    let short = read(&["grep", "-iF", "-C2", "-m", "5", "-g", "*.rs", "TODO", "src"]);
    let long = [
        "grep",
        "--case-insensitive",
        "--literal",
        "--context=2",
        "--max-results=5",
        "--include=*.rs",
        "TODO",
        "src",
    ];
    assert_eq!(short, read(&long));
    assert_eq!(short["case_insensitive"], true);
}
