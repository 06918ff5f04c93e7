//! `haft store migrate` on the command line, and what is left after an interrupted one.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use haft::{
    Ledger, LedgerEntry,
    store::{ReplyTiming, StoreAddress, StoreLedger, StoreLocation},
};
use serde_json::json;

use super::usual;
use crate::{fixture::Fixture, server::Database};

/// Much longer than any step takes. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Enough that copying takes much longer than detecting its start.
const MANY: u64 = 1_200;

/// Creates a store of about twenty megabytes.
fn large(path: &Path) {
    let place = StoreLocation::new(StoreAddress::Sqlite(path.to_owned()));
    let ledger = StoreLedger::new(place, ReplyTiming::Early);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        for number in 0..MANY {
            let entry = json!({
                "call_id": format!("call_{number}"), "session": "s", "agents": [], "parent": null, "tool": "read",
                "effect": "read", "input": {"path": "x".repeat(16_000)}, "repairs": [], "accesses": [], "decision": null,
                "verdict": null, "error": null, "output_sha256": "", "began_ms": 1, "ms": 1
            });
            let entry: LedgerEntry = serde_json::from_value(entry).expect("an entry");
            ledger.record(entry).await.expect("recorded");
        }
        ledger.flush().await.expect("written");
    });
}

#[test]
fn a_person_moves_to_a_database_and_back() {
    let Some(database) = Database::new() else { return };
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    fixture.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    let url = database.url();
    let moved = fixture.run(&["store", "migrate", "--to", &url]);
    assert_eq!(moved.code, 0, "{moved:?}");
    assert!(
        moved.out.contains(
            "including 3 ledger entries, from <root>/project/.haft/haft.db to postgres://"
        ),
        "{moved:?}"
    );
    assert!(moved.out.ends_with(&format!("[store]\nurl = \"{url}\"")), "{moved:?}");
    let again = fixture.run(&["store", "migrate", "--to", &url]);
    assert_eq!(again.code, 4, "{again:?}");
    assert!(again.err.contains("is in use: its table `ledger` holds 3 rows"), "{again:?}");
    // Follow the printed instructions; the first store is no longer needed.
    let config = moved.out.split_once("[store]").expect("told").1;
    let fixture = fixture.user_config(&format!("[store]{config}\n"));
    fs::remove_dir_all(fixture.path("project/.haft")).expect("there");
    fixture.run(&["hello", "Ada"]);
    let whole = fixture.run(&["ledger", "verify"]);
    assert!(whole.out.starts_with("4 entries, the chain is intact"), "{whole:?}");
    let undone = fixture.run(&["undo"]);
    assert_eq!((undone.code, fixture.path("project/a.txt").exists()), (0, false), "{undone:?}");
    let back = fixture.run(&["store", "migrate", "--to", ".haft/haft.db", "--json"]);
    let told = back.json();
    assert_eq!((&told["calls"], &told["tables"]["ledger"]), (&json!(6), &json!(6)), "{told}");
    assert!(told["next"].as_str().is_some_and(|next| next.contains("remove `url`")), "{told}");
    assert_eq!(calls(&fixture, ".haft/haft.db"), 6);
}

#[test]
fn what_cannot_be_copied_is_told_with_a_next_step() {
    let fixture = Fixture::new();
    let none = fixture.run(&["store", "migrate", "--to", "b.db"]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(!fixture.path("project/b.db").exists(), "no target without a source");
    fixture.run(&["hello", "Ada"]);
    let itself = fixture.run(&["store", "migrate", "--to", ".haft/../.haft/haft.db"]);
    assert!(itself.err.contains("to itself"), "{itself:?}");
    let wrong = fixture.run(&["store", "migrate", "--to", "mysql://ada:s3cret@host/db"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(!wrong.whole().contains("s3cret"), "{wrong:?}");
    let gone = fixture.run(&["store", "migrate", "--to", "postgres://ada:s3cret@127.0.0.1:1/x"]);
    assert!(gone.err.contains("cannot be reached"), "{gone:?}");
    assert!(!gone.whole().contains("s3cret"), "{gone:?}");
}

fn calls(fixture: &Fixture, store: &str) -> u64 {
    let info = fixture.run(&["store", "info", "--json", "--store", store]);
    info.json()["entries"].as_u64().unwrap_or_else(|| panic!("{info:?}"))
}

fn start(fixture: &Fixture, to: &str) -> Child {
    let mut haft = fixture.haft(&["store", "migrate", "--to", to]);
    haft.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("haft runs")
}

fn kill(mut child: Child) {
    child.kill().expect("it runs still");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(9), "it was killed in the middle");
}

#[test]
fn who_is_killed_in_the_middle_leaves_a_store_without_contents() {
    let fixture = Fixture::new();
    large(&usual(&fixture));
    let target = fixture.path("project/copy.db");
    let child = start(&fixture, "copy.db");
    let log = target.with_extension("db-wal");
    let began = Instant::now();
    while fs::metadata(&log).map_or(0, |log| log.len()) < 4 << 20 {
        assert!(began.elapsed() < TIMEOUT, "nothing is written");
        std::thread::yield_now();
    }
    kill(child);
    assert_eq!(calls(&fixture, "copy.db"), 0);
    let again = fixture.run(&["store", "migrate", "--to", "copy.db"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(calls(&fixture, "copy.db"), MANY);
    let Some(database) = Database::new() else { return };
    let mut begun = database.wait_for_copy();
    let child = start(&fixture, &database.url());
    assert!(begun.wait().is_ok_and(|status| status.success()));
    kill(child);
    let began = Instant::now();
    // The server detects it after a moment.
    while database.ask("SELECT count(*) FROM haft.chain WHERE seq = 0 AND id = 1") != "1" {
        assert!(began.elapsed() < TIMEOUT, "it is not taken back");
    }
    assert_eq!(database.ask("SELECT count(*) FROM haft.ledger"), "0");
    let again = fixture.run(&["store", "migrate", "--to", &database.url()]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(database.ask("SELECT count(*) FROM haft.ledger"), MANY.to_string());
}

#[test]
fn a_target_without_room_is_told_and_holds_nothing() {
    let fixture = Fixture::new();
    large(&usual(&fixture));
    let haft = fixture.haft(&["store", "migrate", "--to", "copy.db"]);
    // The kernel denies files beyond 8 MB; ignore the signal that comes with it.
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -f 8192; trap '' XFSZ; exec \"$@\"", "bash"]);
    limited.arg(haft.get_program()).args(haft.get_args());
    for (name, value) in haft.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let ended = limited.current_dir(fixture.path("project")).output().expect("it runs");
    assert!(!ended.status.success());
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(told.contains("copy.db") && told.contains("next:"), "{told}");
    assert_eq!(calls(&fixture, "copy.db"), 0);
    assert_eq!(calls(&fixture, ".haft/haft.db"), MANY, "the source is as it was");
}
