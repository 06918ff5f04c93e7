//! Rules that people keep when they answer: through the real prompt, from one process to the next, in this project and
//! elsewhere, until they lapse or are revoked.

use crate::house::{House, Screen};

const FETCH: [&str; 2] = ["web-fetch", "https://nowhere.invalid/page"];
const QUESTION: &str = "[y] yes, once";

/// Chooses the first rule at the prompt of a call, and waits for the end of the call. `scope` is a key, or a scope with a
/// time.
fn answer(house: &House, arguments: &[&str], scope: &str) {
    let screen = Screen::haft(house, arguments);
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

/// What becomes of the call now.
fn action(house: &House, arguments: &[&str]) -> String {
    let told = house.run(&[&["policy", "why"], arguments, &["--json"]].concat()).json();
    told["decision"]["action"].as_str().unwrap_or_default().to_owned()
}

/// The ids of what is saved.
fn saved(house: &House) -> Vec<String> {
    let told = house.run(&["policy", "list", "--json"]).json();
    let rules = told["saved"].as_array().cloned().unwrap_or_default();
    rules.iter().filter_map(|rule| rule["id"].as_str()).map(str::to_owned).collect()
}

fn other_project(house: &House) -> String {
    std::fs::create_dir_all(house.path("other/.haft")).expect("a folder");
    house.path("other").display().to_string()
}

#[test]
fn a_rule_for_the_project_holds_in_the_next_process_and_nowhere_else() {
    let house = House::new();
    assert_eq!(action(&house, &FETCH), "ask");
    answer(&house, &FETCH, "p");
    assert_eq!(action(&house, &FETCH), "allow");
    let ran = house.run_without_terminal(&FETCH);
    assert!(!ran.err.contains("needs approval"), "nobody is asked: {ran:?}");
    let elsewhere = other_project(&house);
    let there = [FETCH[0], FETCH[1], "--workspace", &elsewhere];
    assert_eq!(action(&house, &there), "ask");
    let ran = house.run_without_terminal(&there);
    assert!(ran.err.contains("needs approval"), "{ran:?}");
}

#[test]
fn a_rule_for_the_person_holds_everywhere_until_it_is_revoked() {
    let house = House::new();
    answer(&house, &FETCH, "u");
    let elsewhere = other_project(&house);
    let there = [FETCH[0], FETCH[1], "--workspace", &elsewhere];
    assert_eq!(action(&house, &FETCH), "allow");
    assert_eq!(action(&house, &there), "allow");
    let why = house.run(&[&["policy", "why"], &FETCH[..]].concat());
    assert!(
        why.out.contains(
            "because  rule allow `web_fetch(nowhere.invalid)` (saved for this user, rule_"
        ),
        "{why:?}"
    );
    let listed = house.run(&["policy", "list"]).out;
    assert!(listed.contains("allow `web_fetch(nowhere.invalid)` (user, kept by ada "), "{listed}");
    let [id] = &saved(&house)[..] else { panic!("one rule is saved") };
    // The beginning of an id is enough, also from another project.
    let short: String = id.chars().take(16).collect();
    let gone = house.run(&["policy", "revoke", &short, "--workspace", &elsewhere]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(
        gone.out.starts_with(&format!("gone: {id} allow `web_fetch(nowhere.invalid)`")),
        "{gone:?}"
    );
    assert_eq!(action(&house, &FETCH), "ask");
    assert_eq!(house.run(&["policy", "revoke", id]).code, 3);
}

#[test]
fn a_rule_with_a_time_lapses() {
    let house = House::new();
    answer(&house, &FETCH, "p 1s");
    let begin = std::time::Instant::now();
    // Waits for what must come; a test that fails gives up after a while.
    while action(&house, &FETCH) == "allow" {
        assert!(begin.elapsed().as_secs() < 30, "it never lapses");
    }
    assert_eq!(saved(&house), [""; 0]);
    answer(&house, &FETCH, "p 30d");
    assert_eq!(action(&house, &FETCH), "allow");
    let told = house.run(&["policy", "list", "--json"]).json();
    let rule = &told["saved"][0];
    let (from, to) = (rule["saved_ms"].as_u64(), rule["expires_ms"].as_u64());
    let days = to.zip(from).map(|(to, from)| (to - from + 43_200_000) / 86_400_000);
    assert_eq!(days, Some(30), "{rule}");
}

#[test]
fn a_written_ask_or_deny_goes_before_what_was_saved() {
    let house = House::new();
    answer(&house, &FETCH, "u");
    assert_eq!(action(&house, &FETCH), "allow");
    let house = house.project_config("ask = [\"web_fetch(*.invalid)\"]");
    assert_eq!(action(&house, &FETCH), "ask", "even a project may narrow");
    let checked = house.run(&["policy", "check"]);
    assert_eq!(checked.code, 2);
    assert!(
        checked.out.contains(
            "allow `web_fetch(nowhere.invalid)` never applies: ask `web_fetch(*.invalid)`"
        ),
        "{checked:?}"
    );
    let house = house.project_config("deny = [\"web_*\"]");
    assert_eq!(action(&house, &FETCH), "deny");
}

#[test]
fn the_question_says_what_a_rule_would_have_spared() {
    let house = House::new();
    for page in ["a", "b"] {
        let url = format!("https://nowhere.invalid/{page}");
        house.run_without_terminal(&["web-fetch", &url]);
    }
    house.run_without_terminal(&["web-fetch", "https://elsewhere.invalid/"]);
    let screen = Screen::haft(&house, &FETCH);
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
fn a_rule_is_tried_on_what_is_recorded() {
    let house = House::new();
    let nothing = house.run(&["policy", "test", "hello"]);
    assert!(nothing.code == 0 && nothing.out.contains("nothing is recorded"), "{nothing:?}");
    for (tool, argument) in [("hello", "Ada"), ("hello", "Bo"), (FETCH[0], FETCH[1])] {
        house.run_without_terminal(&[tool, argument]);
    }
    let told = |rule: &[&str]| house.run(&[&["policy", "test", "--json"], rule].concat()).json();
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
    let text = house.run(&["policy", "test", "hello", "--deny"]).out;
    assert!(text.contains("speaks of 2 of 3 recorded calls since "), "{text}");
    assert!(text.contains("\n  allow to deny: 2 calls\n    "), "{text}");
    assert_eq!(house.run(&["policy", "test", "hello("]).code, 2);
    assert_eq!(house.run(&["policy", "test", "hello", "--ask", "--deny"]).code, 2);
    let near = house.run(&["policy", "test", "helo"]);
    assert!(near.err.contains("did you mean `hello`"), "{near:?}");
}
