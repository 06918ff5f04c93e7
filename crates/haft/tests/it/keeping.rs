//! Data that is kept between calls, with the real binary: truncated outputs, todos and sessions,
//! also under failures.

mod faults;

use serde_json::{Value, json};

use crate::{fixture::Fixture, mcp_stdio::Client};

fn store(fixture: &Fixture) -> std::path::PathBuf {
    fixture.path("project/.haft/haft.db")
}

/// Makes a call over MCP and returns its result.
fn called(client: &mut Client, id: u64, tool: &str, input: Value) -> Value {
    client.call(id, tool, input);
    let answer = client.next();
    assert_eq!(answer["id"], id, "{answer}");
    answer["result"].clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// Creates a file with more search hits than are shown.
fn with_long_file() -> Fixture {
    let fixture = Fixture::new();
    let line = |number: usize| match number {
        1_500 => "long 1500 error: the disk is on fire\n".to_owned(),
        _ => format!("long {number} {}\n", "x".repeat(60)),
    };
    let content: String = (1..=2_000).map(line).collect();
    std::fs::write(fixture.path("project/long.txt"), content).expect("written");
    fixture
}

const SEARCH: [&str; 4] = ["grep", "long", "--max-results", "2000"];

#[test]
fn what_was_cut_is_read_and_searched_by_later_commands() {
    let fixture = with_long_file();
    let cut = fixture.run(&[&SEARCH[..], &["--json"]].concat()).json();
    let (id, content) = (cut["output_id"].as_str().expect("cut"), cut["content"].as_str());
    let content = content.expect("a text");
    assert!(content.contains(&format!("the full text is stored as output {id}: ")), "{content}");
    assert!(content.contains("error: the disk is on fire"), "{content}");
    let told = content.split_once("[truncated: lines ").expect("a note").1;
    let (first, rest) = told.split_once('-').expect("two numbers");
    let first: usize = first.parse().expect("a number");
    assert!(rest.contains("more is omitted below"), "{rest}");
    let number = (first + 1).to_string();
    let lines = fixture.run(&["output_read", id, "--start-line", &number, "--end-line", &number]);
    assert!(lines.out.contains(&format!("long.txt:{number}: long {number} xxx")), "{lines:?}");
    assert!(lines.out.ends_with("pages in all]"), "{lines:?}");
    let page = fixture.run(&["output-read", id, "--page", "2"]);
    assert!(page.out.contains("; page 2 of "), "{page:?}");
    let found = fixture.run(&["output_search", id, "on FIRE", "--case-insensitive"]);
    assert_eq!(
        found.out,
        "1500: long.txt:1500: long 1500 error: the disk is on fire\n[1 match in 2002 lines]"
    );
    let gone = fixture.run(&["output_read", "out_0"]);
    assert_eq!((gone.code, gone.err.contains("unknown output `out_0`")), (3, true));
}

#[test]
fn outputs_are_of_their_workspace_also_in_a_store_of_several() {
    let fixture = with_long_file();
    let store = fixture.path("shared.db").display().to_string();
    let shared = ["--store", &*store];
    let cut =
        || fixture.run(&[&SEARCH[..], &["--json"], &shared].concat()).json()["output_id"].clone();
    let (one, two) = (cut(), cut());
    assert_ne!(one, two);
    let id = one.as_str().expect("cut");
    assert_eq!(fixture.run(&[&["output_read", id], &shared[..]].concat()).code, 0);
    std::fs::create_dir(fixture.path("other")).expect("made");
    let other = fixture.path("other").display().to_string();
    let elsewhere =
        fixture.run(&[&["output_read", id, "--workspace", &other], &shared[..]].concat());
    assert_eq!(elsewhere.code, 3, "{elsewhere:?}");
}

#[test]
fn who_records_nothing_has_no_outputs_on_disk_but_may_write_a_list() {
    let fixture = with_long_file().user_config("[store]\nrecord = false\n");
    let cut = fixture.run(&[&SEARCH[..], &["--json"]].concat()).json();
    assert!(cut["output_id"].is_string(), "{cut}");
    assert_eq!(fixture.run(&["todo_read"]).out, "[no todo list yet]");
    assert_eq!(fixture.run(&["session", "list"]).out, "[no sessions]");
    assert!(!store(&fixture).exists(), "no call needed one");
    let written = fixture.run(&["todo_write", "--todos", r#"{"content": "a"}"#]);
    assert_eq!(written.out, "[ ] 1: a\n[1 of 1 open; version 1]", "{written:?}");
    assert_eq!(fixture.run(&["todo_read"]).out, written.out);
}

#[test]
fn a_client_is_not_given_the_same_twice_in_a_row_unless_somebody_wants_it() {
    let fixture = with_long_file();
    let mut client = Client::introduced(&fixture, json!({}));
    let read = |client: &mut Client, id| {
        let result = called(client, id, "read", json!({"path": "long.txt", "limit": 300}));
        (text(&result).to_owned(), result["structuredContent"]["version"].clone())
    };
    let (whole, version) = read(&mut client, 1);
    let (pointer, same_version) = read(&mut client, 2);
    assert!(pointer.starts_with("[unchanged: the same 301 lines ("), "{pointer}");
    assert!(version.is_string() && version == same_version, "what editing needs is there");
    assert_eq!(read(&mut client, 3).0, whole);
    let (_, id) = pointer.split_once("read output ").expect("the id is named");
    let id = id.split(' ').next().expect("a word");
    let shown = called(&mut client, 4, "output_read", json!({"id": id}));
    assert!(text(&shown).starts_with(whole.trim_end()), "{shown}");
    std::fs::write(fixture.path("project/long.txt"), "another\n".repeat(900)).expect("written");
    assert!(read(&mut client, 5).0.contains("another"));

    let fixture = with_long_file().user_config("[outputs]\nrepeats = \"whole\"\n");
    let mut client = Client::introduced(&fixture, json!({}));
    assert_eq!(read(&mut client, 1).0, read(&mut client, 2).0);
}

#[test]
fn sessions_see_each_other_and_leave_word() {
    let fixture = Fixture::new();
    let (mut one, mut two) =
        (Client::introduced(&fixture, json!({})), Client::introduced(&fixture, json!({})));
    called(&mut one, 1, "hello", json!({"name": "Ada"}));
    let named = json!({"operation": "patch", "title": "Parser", "metadata": {"ticket": 7}});
    let patched = called(&mut one, 2, "session", named);
    let own = patched["structuredContent"]["session"]["id"].as_str().expect("an id").to_owned();
    assert!(own.starts_with("mcp-"), "{own}");
    let listed = called(&mut two, 1, "session", json!({"operation": "list", "filter": "parse"}));
    assert!(text(&listed).starts_with(&format!("{own}; Parser; last active 20")), "{listed}");
    let secret = format!("{}{}", "ghp_", "a1B2".repeat(9));
    let words = json!({"operation": "send", "session_id": own, "message": format!("the token is {secret}")});
    assert_eq!(
        text(&called(&mut two, 2, "session", words)),
        format!("sent to {own} as its message 1")
    );
    let person = fixture.run(&["session", "send", "--session-id", &own, "--message", "well done"]);
    assert_eq!((person.code, &*person.out), (0, &*format!("sent to {own} as its message 2")));
    let history = called(&mut one, 3, "session", json!({"operation": "history", "limit": 9}));
    let told = text(&history);
    assert!(told.contains("(agent): the token is [redacted:github-token]"), "{told}");
    assert!(told.contains("message 2 from cli (person): well done"), "{told}");
    assert!(told.contains(" session {\"operation\":\"patch\",\"title\":\"Parser\""), "{told}");
    let todos = json!({"todos": [{"content": "a", "status": "in_progress"}]});
    called(&mut one, 4, "todo_write", todos);
    let other = called(&mut two, 3, "todo_read", json!({"session_id": own}));
    assert_eq!(text(&other), "[~] 1: a\n[1 of 1 open; version 1]");
    assert_eq!(text(&called(&mut two, 4, "todo_read", json!({}))), "[no todo list yet]");
}

#[test]
fn a_connection_that_calls_nothing_is_no_session() {
    let fixture = Fixture::new();
    let mut idle = Client::introduced(&fixture, json!({}));
    let mut busy = Client::introduced(&fixture, json!({}));
    called(&mut busy, 1, "hello", json!({"name": "Ada"}));
    let listed = called(&mut busy, 2, "session", json!({"operation": "list"}));
    assert!(text(&listed).ends_with("; agent mcp; this session\n[1 session]"), "{listed}");
    idle.close();
    assert!(idle.exit().success());
}

#[test]
fn looking_at_sessions_is_not_asked_about_and_writing_to_them_is_where_changes_are() {
    let fixture = Fixture::new();
    let asked = |words: &[&str]| {
        let ran = fixture.run_without_terminal(&[&["--approve", "safe"], words].concat());
        ran.code == 5
    };
    assert!(!asked(&["session", "list"]));
    assert!(!asked(&["todo_read"]));
    assert!(!asked(&["output_read", "out_1"]));
    assert!(asked(&["session", "patch", "--title", "x"]));
    assert!(asked(&["todo_write", "--todos", r#"{"content": "a"}"#]));
}

#[test]
fn a_long_output_is_read_and_searched_in_bounded_memory() {
    const LINES: u64 = 1_200_000;
    let fixture = Fixture::new();
    let long: String =
        (1..=LINES).map(|number| format!("line {number} of a long output\n")).collect();
    assert!(long.len() > 32 << 20);
    let (bytes, project) = (long.len(), fixture.path("project"));
    let place = haft::store::StoreLocation::new(haft::store::StoreAddress::Sqlite(store(&fixture)));
    let outputs = haft::store::StoreOutputs::new(place, &project, Default::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let kept = haft::Outputs::keep(&outputs, long, haft::OutputSource::default());
    let id = runtime.block_on(kept).expect("kept").id;
    let mut client = Client::introduced(&fixture, json!({}));
    called(&mut client, 1, "output_read", json!({"id": id, "start_line": 1}));
    let before = client.peak_mb();
    let page = called(&mut client, 2, "output_read", json!({"id": id, "page": bytes / 65_536}));
    assert!(text_of_middle(text(&page)), "{page}");
    let lines = json!({"id": id, "start_line": LINES / 2, "end_line": LINES / 2});
    let lines = called(&mut client, 3, "output_read", lines);
    assert!(text(&lines).starts_with("line 600000 of a long output\n"), "{lines}");
    let search = json!({"id": id, "pattern": "^line 119999\\d of", "context": 1});
    let found = called(&mut client, 4, "output_search", search);
    assert!(text(&found).contains("\n1199999: line 1199999 of a long output\n"), "{found}");
    assert!(text(&found).ends_with("[10 matches in 1200000 lines]"), "{found}");
    let taken = client.peak_mb() - before;
    assert!(taken < 16, "{taken} MB more for {} MB of text", bytes >> 20);
}

fn text_of_middle(page: &str) -> bool {
    page.contains(" of a long output\nline 6") || page.contains(" of a long output\nline 5")
}
