//! Asking for approval: on a real terminal, and without one.

use crate::house::{House, Screen};

const ASKED: [&str; 4] = ["--approve", "none", "hello", "Ada"];
const QUESTION: &str = "[y] yes, once";

#[test]
fn without_a_terminal_it_is_refused_with_advice() {
    insta::assert_snapshot!(House::new().run_without_terminal(&ASKED).whole(), @r#"

    --- stderr
    error: `hello` needs a yes (mode `none` asks before everything), and nobody could be asked
      next: to run it unasked, add `allow = ["hello"]` to <house>/home/.config/haft/config.toml, or use `--approve safe`
    --- exit 5
    "#);
}

#[test]
fn a_yes_runs_the_call() {
    let house = House::new();
    let screen = Screen::haft(&house, &ASKED);
    let question = screen.wait_for(QUESTION);
    assert!(question.contains("haft asks: Hello (read)"), "{question}");
    assert!(question.contains("\"name\": \"Ada\""), "{question}");
    assert!(!question.contains("[s]"), "nothing is remembered beyond one call: {question}");
    screen.press(&["what?", "Enter"]);
    screen.press(&["y", "Enter"]);
    assert_eq!(screen.exit_code(), 0);
    let shown = screen.wait_for("Hello, Ada!");
    assert_eq!(shown.matches(QUESTION).count(), 2, "an unclear answer is asked again: {shown}");
}

#[test]
fn a_no_with_words_reaches_the_caller() {
    let house = House::new();
    let screen = Screen::haft(&house, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["w greet Grace instead", "Enter"]);
    assert_eq!(screen.exit_code(), 5);
    let shown = screen.wait_for("error:");
    assert!(shown.contains("ada said no to this call of `hello`: greet Grace instead"), "{shown}");
}

#[test]
fn pipes_do_not_stand_in_the_way_of_the_question() {
    let house = House::new();
    let haft = env!("CARGO_BIN_EXE_haft");
    let line = format!("echo Ada | {haft} --approve none hello - > out; echo \"[exit $?]\"");
    let screen = Screen::start(&house, &line);
    screen.wait_for(QUESTION);
    screen.press(&["yes", "Enter"]);
    assert_eq!(screen.exit_code(), 0);
    let out = std::fs::read_to_string(house.path("project/out")).expect("the shell made it");
    assert_eq!(out, "Hello, Ada!\n");
}

#[test]
fn the_end_of_input_is_no_answer() {
    let house = House::new();
    let screen = Screen::haft(&house, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["C-d"]);
    assert_eq!(screen.exit_code(), 5);
    screen.wait_for("nobody could be asked");
}

#[test]
fn an_interrupt_calls_off_and_voids_the_question() {
    let house = House::new();
    let screen = Screen::haft(&house, &ASKED);
    screen.wait_for(QUESTION);
    screen.press(&["C-c"]);
    assert_eq!(screen.exit_code(), 130);
    screen.wait_for("haft no longer waits for an answer");
    screen.wait_for("was called off");
}

#[test]
fn a_termination_does_the_same() {
    let house = House::new();
    let screen = Screen::haft(&house, &ASKED);
    screen.wait_for(QUESTION);
    screen.signal("-TERM");
    assert_eq!(screen.exit_code(), 130);
}

#[test]
fn a_question_lapses() {
    let house = House::new().user_config("[limits]\napproval_wait_secs = 1\n");
    let screen = Screen::haft(&house, &ASKED);
    screen.wait_for("haft no longer waits for an answer");
    assert_eq!(screen.exit_code(), 5);
    screen.wait_for("nobody decided about this call of `hello` in time");
}

#[test]
fn what_comes_from_the_call_cannot_redraw_the_screen() {
    let house = House::new();
    let screen =
        Screen::haft(&house, &["--approve", "none", "hello", "\u{1b}[2J\u{9b}1A\u{202e}Ada"]);
    let question = screen.wait_for(QUESTION);
    assert!(question.contains("haft asks"), "nothing was wiped: {question}");
    screen.press(&["y", "Enter"]);
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for(r"Hello, ␛[2J\u{9b}1A\u{202e}Ada!");
}
