//! The protocol's own conformance suite, for both eras.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Served, node, run, text};
use crate::fixture::Fixture;

/// The result of one run of the suite.
struct SuiteReport {
    /// Each scenario with its failed or warned checks.
    faults: BTreeMap<String, Vec<String>>,
    /// The scenarios that count for the requirement set.
    scored: Vec<String>,
    whole: String,
}

impl SuiteReport {
    /// The suite's timeouts of half a second are too short for a busy machine: repeat unexpected
    /// failures once.
    #[track_caller]
    fn of(server: &Served, requirements: &str, is_as_expected: impl Fn(&Self) -> bool) -> Self {
        let first = Self::once(server, requirements);
        if is_as_expected(&first) { first } else { Self::once(server, requirements) }
    }

    #[track_caller]
    fn once(server: &Served, requirements: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut suite = node("conformance/dist/index.js");
        suite.args(["server", "--url", &server.url, "--requirements", requirements, "-o"]);
        suite.arg(folder.path());
        let output = run(suite);
        let whole = text(&output.stdout) + &text(&output.stderr);
        let (_, summary) = whole.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{whole}"));
        let (ran, unscored) = summary.split_once("Not scored").unwrap_or((summary, ""));
        let unscored: Vec<&str> = names(unscored).collect();
        let scored = names(ran).filter(|name| !unscored.contains(name)).map(str::to_owned);
        let scored = scored.collect();
        let faults = names(ran).map(|name| (name.to_owned(), faults(folder.path(), name)));
        let faults = faults.collect();
        Self { faults, scored, whole }
    }

    /// Returns the scenarios with failures or warnings. Tasks are an extension that haft does not
    /// announce; the suite runs it anyway and does not count it.
    fn faulty(&self) -> Vec<&str> {
        let faulty = self.faults.iter().filter(|(_, faults)| !faults.is_empty());
        faulty.map(|(name, _)| name.as_str()).filter(|name| !name.starts_with("tasks-")).collect()
    }

    fn explain(&self) -> String {
        let faults =
            self.faulty().into_iter().map(|name| format!("{name}: {:#?}", self.faults[name]));
        faults.collect::<Vec<_>>().join("\n") + &self.whole
    }
}

/// `✓ tools-list: 3 passed, 0 failed`, `  ✗ tasks-lifecycle (extension)`
fn names(lines: &str) -> impl Iterator<Item = &str> {
    let marked = lines.lines().filter_map(|line| line.trim().strip_prefix(['✓', '✗', '~']));
    marked.filter_map(|rest| rest.trim().split([':', ' ']).next())
}

/// Returns the messages of all failures and warnings of a scenario, from the suite's result file.
#[track_caller]
fn faults(results: &std::path::Path, scenario: &str) -> Vec<String> {
    let folders = std::fs::read_dir(results).expect("the suite has written its results");
    let prefix = format!("server-{scenario}-20");
    let folder = folders
        .map(|entry| entry.expect("readable").path())
        .find(|path| {
            path.file_name().is_some_and(|name| text(name.as_encoded_bytes()).starts_with(&prefix))
        })
        .unwrap_or_else(|| panic!("no results of {scenario}"));
    let checks = std::fs::read(folder.join("checks.json")).expect("each scenario has its checks");
    let checks: Vec<Value> = serde_json::from_slice(&checks).expect("JSON");
    assert!(checks.iter().any(|check| check["status"] != "INFO"), "{scenario} checked nothing");
    let faulty = checks.iter().filter(|check| ["FAILURE", "WARNING"].contains(&status(check)));
    faulty
        .map(|check| format!("{} {}: {}", status(check), check["id"], check["errorMessage"]))
        .collect()
}

fn status(check: &Value) -> &str {
    check["status"].as_str().unwrap_or_default()
}

#[track_caller]
fn check_example(requirements: &str, scored: usize) {
    let server = Served::example();
    let report = SuiteReport::of(&server, requirements, |report| report.faulty().is_empty());
    // A suite with fewer scenarios than before would pass unnoticed.
    assert_eq!(report.scored.len(), scored, "{:?}", report.scored);
    assert_eq!(report.faulty(), [""; 0], "{}", report.explain());
}

#[test]
fn the_example_conforms_to_2025_11_25_without_a_warning() {
    check_example("2025-11-25", 30);
}

#[test]
fn the_example_conforms_to_2026_07_28_without_a_warning() {
    check_example("2026-07-28", 37);
}

/// A scenario that needs a server feature that haft does not have.
struct UnsupportedScenario {
    scenario: &'static str,
    /// Every failure of the scenario contains one of these texts.
    says: &'static [&'static str],
}

const fn lack(scenario: &'static str, says: &'static [&'static str]) -> UnsupportedScenario {
    UnsupportedScenario { scenario, says }
}

/// In both sets.
const FIXTURES: &[UnsupportedScenario] = &[
    lack("tools-call-simple-text", &["unknown tool `test_simple_text`"]),
    lack("tools-call-image", &["unknown tool `test_image_content`"]),
    lack("tools-call-audio", &["unknown tool `test_audio_content`"]),
    lack("tools-call-embedded-resource", &["unknown tool `test_embedded_resource`"]),
    lack("tools-call-mixed-content", &["unknown tool `test_multiple_content_types`"]),
    lack("tools-call-error", &["unknown tool `test_error_handling`"]),
    lack("tools-call-with-progress", &["unknown tool `test_tool_with_progress`"]),
    lack("resources-read-text", &["no resource test://static-text"]),
    lack("resources-read-binary", &["no resource test://static-binary"]),
    lack("resources-templates-read", &["no resource test://template/123/data"]),
    lack("prompts-get-simple", &["no prompt `test_simple_prompt`"]),
    lack("prompts-get-with-args", &["no prompt `test_prompt_with_arguments`"]),
    lack("prompts-get-embedded-resource", &["no prompt `test_prompt_with_embedded_resource`"]),
    lack("prompts-get-with-image", &["no prompt `test_prompt_with_image`"]),
    lack("json-schema-2020-12", &["Tool 'json_schema_2020_12_tool' not found"]),
];

const FIXTURES_OF_2025: &[UnsupportedScenario] = &[
    lack("tools-call-with-logging", &["unknown tool `test_tool_with_logging`"]),
    lack("tools-call-sampling", &["unknown tool `test_sampling`"]),
    lack("tools-call-elicitation", &["unknown tool `test_elicitation`"]),
    lack("elicitation-sep1034-defaults", &["unknown tool `test_elicitation_sep1034_defaults`"]),
    lack("elicitation-sep1330-enums", &["unknown tool `test_elicitation_sep1330_enums`"]),
    lack("resources-subscribe", &["test://watched-resource cannot be watched"]),
    lack("resources-unsubscribe", &["test://watched-resource cannot be watched"]),
    // It calls `test_reconnection` and waits for a result that never comes.
    lack("server-sse-polling", &["WARNING \"server-sse-disconnect-resume\""]),
];

const FIXTURES_OF_2026: &[UnsupportedScenario] = &[
    lack(
        "server-stateless",
        &[
            "diagnostic tool 'test_missing_capability'",
            "diagnostic tool 'test_streaming_elicitation'",
            "diagnostic tool 'test_logging_tool'",
            // It calls `test_trigger_tool_change`.
            "WARNING \"sep-2575-server-sends-tools-list-changed-on-subscription\"",
        ],
    ),
    lack(
        "input-required-result-basic-elicitation",
        &["unknown tool `test_input_required_result_elicitation`"],
    ),
    lack(
        "input-required-result-basic-sampling",
        &["unknown tool `test_input_required_result_sampling`"],
    ),
    lack(
        "input-required-result-basic-list-roots",
        &["unknown tool `test_input_required_result_list_roots`"],
    ),
    lack(
        "input-required-result-request-state",
        &["unknown tool `test_input_required_result_request_state`"],
    ),
    lack(
        "input-required-result-multiple-input-requests",
        &["unknown tool `test_input_required_result_multiple_inputs`"],
    ),
    // These two do not announce that they need `test_input_required_result_multi_round` and
    // `…_tampered_state`.
    lack("input-required-result-multi-round", &["Expected InputRequiredResult with inputRequests"]),
    lack("input-required-result-tampered-state", &["could not get initial InputRequiredResult"]),
    lack(
        "input-required-result-non-tool-request",
        &["no prompt `test_input_required_result_prompt`"],
    ),
    lack(
        "input-required-result-result-type",
        &["unknown tool `test_input_required_result_elicitation`"],
    ),
    lack(
        "input-required-result-capability-check",
        &["unknown tool `test_input_required_result_capabilities`"],
    ),
    lack(
        "input-required-result-ignore-extra-params",
        &["unknown tool `test_input_required_result_elicitation`"],
    ),
    // It also needs `test_input_required_result_elicitation`.
    lack(
        "input-required-result-missing-input-response",
        &["returned JSON-RPC error instead of re-requesting"],
    ),
    lack("http-custom-header-server-validation", &["no tool with x-mcp-header annotations"]),
];

#[track_caller]
fn check_haft(requirements: &str, scored: usize, lacks: &[&[UnsupportedScenario]]) {
    let fixture = Fixture::new();
    let project = fixture.path("project").display().to_string();
    let server = Served::haft(&fixture, &["--workspace", &project]);
    let lacks: BTreeMap<&str, &UnsupportedScenario> =
        lacks.iter().copied().flatten().map(|lack| (lack.scenario, lack)).collect();
    let lacking: Vec<&str> = lacks.keys().copied().collect();
    let report = SuiteReport::of(&server, requirements, |report| report.faulty() == lacking);
    assert_eq!(report.scored.len(), scored, "{:?}", report.scored);
    assert_eq!(report.faulty(), lacking, "{}", report.explain());
    for (scenario, lack) in lacks {
        for fault in &report.faults[scenario] {
            let is_known = lack.says.iter().any(|words| fault.contains(words));
            assert!(is_known, "{scenario} fails for another reason: {fault}");
        }
    }
}

#[test]
fn haft_conforms_to_2025_11_25_where_no_fixture_is_needed() {
    check_haft("2025-11-25", 30, &[FIXTURES, FIXTURES_OF_2025]);
}

#[test]
fn haft_conforms_to_2026_07_28_where_no_fixture_is_needed() {
    check_haft("2026-07-28", 37, &[FIXTURES, FIXTURES_OF_2026]);
}
