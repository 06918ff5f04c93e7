//! The official Inspector in its command line mode.

use serde_json::Value;

use super::{Served, node, run, text};
use crate::fixture::Fixture;

/// The transport between the Inspector and haft.
enum Transport<'a> {
    Stdio(&'a Fixture),
    Http(&'a Fixture, &'a Served),
}

/// Returns its exit code and output.
#[track_caller]
fn inspect(way: &Transport<'_>, arguments: &[&str]) -> (i32, Value) {
    // Bypass its launcher, which requires the whole application with its web server.
    let mut inspector = node("inspector/clients/cli/build/index.js");
    match way {
        Transport::Stdio(fixture) => {
            let project = fixture.path("project").display().to_string();
            inspector.args([env!("CARGO_BIN_EXE_haft"), "mcp", "--workspace", &project]);
            inspector.env("HOME", fixture.path("home"));
        }
        Transport::Http(fixture, served) => {
            inspector.arg(&served.url).env("HOME", fixture.path("home"));
        }
    }
    inspector.args(["--format", "json", "--quiet"]).args(arguments);
    let output = run(inspector);
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| Value::Null);
    let code = output.status.code().unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    (code, printed)
}

#[track_caller]
fn check(way: &Transport<'_>) {
    let inspect = |arguments: &[&str]| inspect(way, &[&["--method"], arguments].concat());
    let (code, listed) = inspect(&["tools/list"]);
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(code, 0, "{listed}");
    assert!(names.contains(&"read") && names.contains(&"grep"), "{names:?}");

    for era in ["legacy", "modern"] {
        let read = ["tools/call", "--tool-name", "read", "--tool-arg", "path=a.txt"];
        let (code, read) = inspect(&[&read[..], &["--protocol-era", era]].concat());
        assert_eq!((code, &read["result"]["structuredContent"]["total_lines"]), (0, &2.into()));
        assert!(read["result"]["content"][0]["text"].to_string().contains("second line"), "{read}");
    }

    // The Inspector exits with 5 when a tool reports an error.
    let (code, failed) =
        inspect(&["tools/call", "--tool-name", "read", "--tool-arg", "path=nothing.txt"]);
    assert_eq!((code, &failed["result"]["isError"]), (5, &Value::Bool(true)), "{failed}");

    let (code, resources) = inspect(&["resources/list"]);
    assert_eq!((code, &resources["result"]["resources"][0]["name"]), (0, &"a.txt".into()));
    let (code, prompts) = inspect(&["prompts/list"]);
    assert_eq!((code, &prompts["result"]["prompts"][0]["name"]), (0, &"orientation".into()));
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("project/a.txt"), "first line\nsecond line\n").expect("written");
    fixture
}

#[test]
fn the_inspector_reaches_haft_over_stdio() {
    let fixture = fixture();
    check(&Transport::Stdio(&fixture));
}

#[test]
fn the_inspector_reaches_haft_over_http() {
    let fixture = fixture();
    let project = fixture.path("project").display().to_string();
    let served = Served::haft(&fixture, &["--workspace", &project]);
    check(&Transport::Http(&fixture, &served));
}
