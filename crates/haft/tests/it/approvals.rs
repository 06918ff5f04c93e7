//! Asking for approval: on a real terminal, and without one.

use crate::fixture::{Fixture, Screen};

const ASKED: [&str; 4] = ["--approve", "none", "hello", "Ada"];
const QUESTION: &str = "[y] yes, once";

#[test]
fn without_a_terminal_it_is_refused_with_advice() {
    insta::assert_snapshot!(Fixture::new().run_without_terminal(&ASKED).whole(), @r#"

    --- stderr
    error: `hello` needs approval (mode `none` requires approval for every call), but no approver is available
      next: to run it without approval, add `allow = ["hello"]` to <root>/home/.config/haft/config.toml, or use `--approve safe`
    --- exit 5
    "#);
}

#[test]
fn one_key_approves_and_the_call_runs() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    let question = screen.wait_for(QUESTION);
    assert!(question.trim_start().starts_with("Approve hello? (read)"), "{question}");
    assert!(question.contains("\"name\": \"Ada\""), "{question}");
    assert!(!question.contains("[s]"), "no rule for the session is offered: {question}");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for("Hello, Ada!");
}

#[test]
fn enter_and_unknown_keys_do_not_approve() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for(QUESTION);
    for (number, key) in ["Enter", "x", "Space", "Escape", "Up", "Y e s"].iter().enumerate() {
        let keys: Vec<&str> = key.split(' ').collect();
        screen.press(&keys);
        screen.wait_for_count(QUESTION, number + 2);
    }
    screen.press(&["?"]);
    let shown = screen.wait_for("Enter and other keys do nothing");
    assert!(!shown.contains("Hello"), "{shown}");
    screen.press(&["n"]);
    assert_eq!(screen.exit_code(), 5);
}

#[test]
fn keys_typed_before_the_prompt_do_not_answer_it() {
    let fixture = Fixture::new();
    let haft = env!("CARGO_BIN_EXE_haft");
    // The terminal collects the keys while the shell sleeps.
    let line = format!("echo ready; sleep 2; {haft} --approve none hello Ada; echo \"[exit $?]\"");
    let screen = Screen::start(&fixture, &line);
    screen.wait_for("ready");
    screen.press(&["y", "Enter"]);
    screen.press(&["y"]);
    screen.wait_for(QUESTION);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!screen.wait_for(QUESTION).contains("Hello"), "the prompt is still open");
    screen.press(&["n"]);
    assert_eq!(screen.exit_code(), 5);
}

#[test]
fn the_terminal_is_as_it_was_after_a_prompt() {
    for key in ["y", "n", "C-c", "C-d"] {
        let fixture = Fixture::new();
        let haft = env!("CARGO_BIN_EXE_haft");
        let line = format!(
            "trap : INT; stty -a > before; {haft} --approve none hello Ada; stty -a > after; echo \"[exit 0]\""
        );
        let screen = Screen::start(&fixture, &line);
        screen.wait_for(QUESTION);
        screen.press(&[key]);
        screen.exit_code();
        let modes = |name: &str| {
            std::fs::read_to_string(fixture.path("project").join(name)).expect("the shell made it")
        };
        assert_eq!(modes("before"), modes("after"), "{key}");
    }
}

#[test]
fn a_denial_with_a_note_reaches_the_caller() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["w"]);
    screen.wait_for("what should be done instead?");
    screen.press(&["-l", "greet Grace instead"]);
    screen.wait_for("> greet Grace instead");
    screen.press(&["Enter"]);
    assert_eq!(screen.exit_code(), 5);
    let shown = screen.wait_for("error:");
    assert!(shown.contains("ada denied this call of `hello`: greet Grace instead"), "{shown}");
}

#[test]
fn a_prompt_works_when_standard_input_is_a_pipe() {
    let fixture = Fixture::new();
    let haft = env!("CARGO_BIN_EXE_haft");
    let line = format!("echo Ada | {haft} --approve none hello - > out; echo \"[exit $?]\"");
    let screen = Screen::start(&fixture, &line);
    screen.wait_for(QUESTION);
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    let out = std::fs::read_to_string(fixture.path("project/out")).expect("the shell made it");
    assert_eq!(out, "Hello, Ada!\n");
}

#[test]
fn the_end_of_input_is_no_answer() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["C-d"]);
    assert_eq!(screen.exit_code(), 5);
    screen.wait_for("no approver is available");
}

#[test]
fn an_interrupt_calls_off_and_voids_the_question() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["C-c"]);
    assert_eq!(screen.exit_code(), 130);
    screen.wait_for("haft no longer waits for an answer");
    screen.wait_for("was cancelled");
}

#[test]
fn a_termination_does_the_same() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for(QUESTION);
    screen.signal("-TERM");
    assert_eq!(screen.exit_code(), 130);
}

#[test]
fn a_question_lapses() {
    let fixture = Fixture::new().user_config("[limits]\napproval_wait_secs = 1\n");
    let screen = Screen::haft(&fixture, &ASKED);
    screen.wait_for("haft no longer waits for an answer");
    assert_eq!(screen.exit_code(), 5);
    screen.wait_for("no approver decided on this call of `hello` in time");
}

#[test]
fn what_comes_from_the_call_cannot_redraw_the_screen() {
    let fixture = Fixture::new();
    let screen =
        Screen::haft(&fixture, &["--approve", "none", "hello", "\u{1b}[2J\u{9b}1A\u{202e}Ada"]);
    let question = screen.wait_for(QUESTION);
    assert!(question.contains("Approve hello?"), "nothing was wiped: {question}");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for(r"Hello, ␛[2J\u{9b}1A\u{202e}Ada!");
}
