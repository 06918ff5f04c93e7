//! Rules that approvers save: through the real prompt, from one process to the next, in this
//! project and others, until they expire or are revoked.

use crate::fixture::{Fixture, Screen};

const FETCH: [&str; 2] = ["web-fetch", "https://nowhere.invalid/page"];
const QUESTION: &str = "[y] yes, once";

/// Chooses the first rule at the prompt of a call, and waits for the end of the call. `scope` is a key, or a scope with a
/// time.
fn answer(fixture: &Fixture, arguments: &[&str], scope: &str) {
    let screen = Screen::haft(fixture, arguments);
    screen.wait_for(QUESTION);
    screen.press(&["1"]);
    screen.wait_for("[b] back");
    if scope.len() == 1 {
        screen.press(&[scope]);
    } else {
        screen.press(&["t"]);
        screen.wait_for("type scope and time");
        screen.press(&["-l", scope]);
        screen.press(&["Enter"]);
    }
    screen.exit_code();
}

/// Returns the policy's current decision on the call.
fn action(fixture: &Fixture, arguments: &[&str]) -> String {
    let told = fixture.run(&[&["policy", "why"], arguments, &["--json"]].concat()).json();
    told["decision"]["action"].as_str().unwrap_or_default().to_owned()
}

/// Returns the ids of saved rules.
fn saved(fixture: &Fixture) -> Vec<String> {
    let told = fixture.run(&["policy", "list", "--json"]).json();
    let rules = told["saved"].as_array().cloned().unwrap_or_default();
    rules.iter().filter_map(|rule| rule["id"].as_str()).map(str::to_owned).collect()
}

fn other_project(fixture: &Fixture) -> String {
    std::fs::create_dir_all(fixture.path("other/.haft")).expect("a folder");
    fixture.path("other").display().to_string()
}

#[test]
fn a_rule_for_the_project_holds_in_the_next_process_and_nowhere_else() {
    let fixture = Fixture::new();
    assert_eq!(action(&fixture, &FETCH), "ask");
    answer(&fixture, &FETCH, "p");
    assert_eq!(action(&fixture, &FETCH), "allow");
    let ran = fixture.run_without_terminal(&FETCH);
    assert!(!ran.err.contains("needs approval"), "no approval is needed: {ran:?}");
    let elsewhere = other_project(&fixture);
    let there = [FETCH[0], FETCH[1], "--workspace", &elsewhere];
    assert_eq!(action(&fixture, &there), "ask");
    let ran = fixture.run_without_terminal(&there);
    assert!(ran.err.contains("needs approval"), "{ran:?}");
}

#[test]
fn a_rule_for_the_user_applies_everywhere_until_it_is_revoked() {
    let fixture = Fixture::new();
    answer(&fixture, &FETCH, "u");
    let elsewhere = other_project(&fixture);
    let there = [FETCH[0], FETCH[1], "--workspace", &elsewhere];
    assert_eq!(action(&fixture, &FETCH), "allow");
    assert_eq!(action(&fixture, &there), "allow");
    let why = fixture.run(&[&["policy", "why"], &FETCH[..]].concat());
    assert!(
        why.out.contains(
            "because  rule allow `web_fetch(nowhere.invalid)` (saved for this user, rule_"
        ),
        "{why:?}"
    );
    let listed = fixture.run(&["policy", "list"]).out;
    assert!(listed.contains("allow `web_fetch(nowhere.invalid)` (user, saved by ada "), "{listed}");
    let [id] = &saved(&fixture)[..] else { panic!("one rule is saved") };
    // A prefix of the id is enough, also from another project.
    let short: String = id.chars().take(16).collect();
    let gone = fixture.run(&["policy", "revoke", &short, "--workspace", &elsewhere]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(
        gone.out.starts_with(&format!("revoked: {id} allow `web_fetch(nowhere.invalid)`")),
        "{gone:?}"
    );
    assert_eq!(action(&fixture, &FETCH), "ask");
    assert_eq!(fixture.run(&["policy", "revoke", id]).code, 3);
}

#[test]
fn a_rule_with_a_time_expires() {
    let fixture = Fixture::new();
    answer(&fixture, &FETCH, "p 1s");
    let begin = std::time::Instant::now();
    // Wait for the expiry; a failing test stops after a while.
    while action(&fixture, &FETCH) == "allow" {
        assert!(begin.elapsed().as_secs() < 30, "it never expires");
    }
    assert_eq!(saved(&fixture), [""; 0]);
    answer(&fixture, &FETCH, "p 30d");
    assert_eq!(action(&fixture, &FETCH), "allow");
    let told = fixture.run(&["policy", "list", "--json"]).json();
    let rule = &told["saved"][0];
    let (from, to) = (rule["saved_ms"].as_u64(), rule["expires_ms"].as_u64());
    let days = to.zip(from).map(|(to, from)| (to - from + 43_200_000) / 86_400_000);
    assert_eq!(days, Some(30), "{rule}");
}

#[test]
fn a_written_ask_or_deny_goes_before_what_was_saved() {
    let fixture = Fixture::new();
    answer(&fixture, &FETCH, "u");
    assert_eq!(action(&fixture, &FETCH), "allow");
    let fixture = fixture.project_config("ask = [\"web_fetch(*.invalid)\"]");
    assert_eq!(action(&fixture, &FETCH), "ask", "even a project may narrow");
    let checked = fixture.run(&["policy", "check"]);
    assert_eq!(checked.code, 2);
    assert!(
        checked.out.contains(
            "allow `web_fetch(nowhere.invalid)` never applies: ask `web_fetch(*.invalid)`"
        ),
        "{checked:?}"
    );
    let fixture = fixture.project_config("deny = [\"web_*\"]");
    assert_eq!(action(&fixture, &FETCH), "deny");
}

#[test]
fn the_question_says_what_a_rule_would_have_spared() {
    let fixture = Fixture::new();
    for page in ["a", "b"] {
        let url = format!("https://nowhere.invalid/{page}");
        fixture.run_without_terminal(&["web-fetch", &url]);
    }
    fixture.run_without_terminal(&["web-fetch", "https://elsewhere.invalid/"]);
    let screen = Screen::haft(&fixture, &FETCH);
    let question = screen.wait_for(QUESTION);
    assert!(
        question
            .contains("[1] web_fetch(nowhere.invalid)  would have avoided 2 of the last 3 prompts"),
        "{question}"
    );
    screen.press(&["n"]);
    assert_eq!(screen.exit_code(), 5);
}

#[test]
fn a_rule_is_tested_on_recorded_calls() {
    let fixture = Fixture::new();
    let nothing = fixture.run(&["policy", "test", "hello"]);
    assert!(nothing.code == 0 && nothing.out.contains("no recorded calls"), "{nothing:?}");
    for (tool, argument) in [("hello", "Ada"), ("hello", "Bo"), (FETCH[0], FETCH[1])] {
        fixture.run_without_terminal(&[tool, argument]);
    }
    let told = |rule: &[&str]| fixture.run(&[&["policy", "test", "--json"], rule].concat()).json();
    let denied = told(&["hello", "--deny"]);
    assert_eq!((&denied["calls"], &denied["speaks_of"]), (&3.into(), &2.into()), "{denied}");
    let change = &denied["changes"][0];
    assert_eq!(
        (&change["from"], &change["to"], &change["calls"]),
        (&"allow".into(), &"deny".into(), &2.into())
    );
    assert_eq!(change["examples"][0]["input"]["name"], "Bo", "newest first");
    let allowed = told(&["web_fetch(*.invalid)"]);
    assert_eq!(allowed["changes"][0]["from"], "ask");
    assert_eq!(allowed["changes"][0]["to"], "allow");
    assert_eq!(told(&["hello", "--ask", "--limit", "2"])["changes"][0]["calls"], 1);
    assert_eq!(told(&["hello", "--ask", "--since", "2100-01-01"])["calls"], 0);
    assert_eq!(told(&["hello", "--allow"])["changes"], serde_json::json!([]));
    let text = fixture.run(&["policy", "test", "hello", "--deny"]).out;
    assert!(text.contains("matches 2 of 3 recorded calls since "), "{text}");
    assert!(text.contains("\n  allow to deny: 2 calls\n    "), "{text}");
    assert_eq!(fixture.run(&["policy", "test", "hello("]).code, 2);
    assert_eq!(fixture.run(&["policy", "test", "hello", "--ask", "--deny"]).code, 2);
    let near = fixture.run(&["policy", "test", "helo"]);
    assert!(near.err.contains("did you mean `hello`"), "{near:?}");
}
