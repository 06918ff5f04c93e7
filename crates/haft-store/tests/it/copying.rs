//! Copying a whole store: the copy has the same rows and continues where the source was; a failed
//! copy leaves nothing.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_core::Inbox;
use haft_core::Leases;
use haft_core::{
    ApprovalDecision, ApprovalState, Approvals, CallInfo, ContentHash, ErrorKind, Journal, Ledger,
    NewChange, NewJournalEntry, NewMessage, OutputSource, Outputs, PathState, Remember, SavedRules,
    Scope, Sessions, Todo, TodoPriority, TodoStatus, Todos,
};
use haft_store::{
    Announcement, CopySummary, JournalRetention, OutputRetention, Store, StoreAddress, StoreFeed,
    StoreJournal, StoreLeases, StoreLocation, StoreSessions, StoreTodos, copy_store,
};
use rusqlite::types::Value as Cell;
use serde_json::json;
use tokio_postgres::{NoTls, types::Type};

use crate::{
    approvals::{approvals, request},
    cluster::Cluster,
    recording::{keep_result, keeping},
    stores::{Fresh, change, postgres, read_call},
};

/// Pairs of stores for every combination of engines.
async fn pairs() -> Vec<(Fresh, Fresh)> {
    let mut pairs = vec![(file(), file())];
    if let Some(database) = postgres().await {
        pairs.push((file(), database));
        pairs.push((another_database().await, file()));
        pairs.push((another_database().await, another_database().await));
    }
    pairs
}

fn file() -> Fresh {
    let folder = tempfile::tempdir().expect("a folder");
    let address = StoreAddress::Sqlite(folder.path().join("project/.haft/haft.db"));
    Fresh { folder, address }
}

async fn another_database() -> Fresh {
    postgres().await.expect("there is a server")
}

async fn like(store: &Fresh) -> Fresh {
    match store.address {
        StoreAddress::Sqlite(_) => file(),
        StoreAddress::Postgres(_) => another_database().await,
    }
}

async fn copy(from: &Fresh, to: &Fresh) -> Result<CopySummary, haft_core::ToolError> {
    copy_store(&from.address, &to.address, |_| {}).await
}

/// Puts something in every table.
async fn fill(store: &Fresh) {
    let ledger = keeping(store, OutputRetention::default());
    for number in 1..=40 {
        let made = if number % 3 == 0 { read_call } else { change };
        keep_result(&ledger, made(number), &format!("result {}", number % 7)).await;
    }
    ledger.flush().await.expect("written");
    let location = || StoreLocation::new(store.address.clone());
    let asker = approvals(store);
    for id in ["ask_1", "ask_2"] {
        asker.create(request(id)).await.expect("kept");
    }
    store.tamper("INSERT INTO ledger_losses VALUES ('s', 3, 7)").await;
    let yes = ApprovalDecision::approve("Ann", "terminal");
    asker.settle("ask_1", ApprovalState::Approved, Some(yes)).await.expect("decided");
    let remember =
        Remember { rules: vec!["write(src/**)".into()], scope: Scope::Project, expires_ms: None };
    store.rules("here").save("s", "Ann", &remember).await.expect("saved");
    let body = json!({"ä": "\u{0}x"});
    let events = StoreFeed::new(location());
    events.announce(&Announcement::of("test", "subject", &body)).await.expect("announced");
    let sessions = StoreSessions::new(location(), Path::new("/w"));
    sessions.mark_active("mcp-1", &["claude".into()]).await.expect("noted");
    let said = NewMessage {
        role: "user".into(),
        author: "Ann".into(),
        content: "go\u{0} on".into(),
        call_id: None,
    };
    sessions.send("mcp-1", &said).await.expect("said");
    let todo = Todo {
        id: "1".into(),
        content: "a\0ä".into(),
        status: TodoStatus::Pending,
        priority: TodoPriority::Low,
    };
    StoreTodos::new(location(), Path::new("/w"))
        .write("s\0", &[todo], None)
        .await
        .expect("written");
    let hour = Duration::from_secs(3600);
    StoreLeases::new(location()).claim("job", "a\0", "ann", hour).await.expect("free");
    let made_by =
        OutputSource { session: "s\0".into(), call_id: "call_1".into(), tool: "bash".into() };
    let text = "a line of some length\n".repeat(30_000);
    store.outputs("/w", OutputRetention::default()).keep(text, made_by).await.expect("kept");
    keep_changes(StoreJournal::new(location(), JournalRetention::DEFAULT));
}

fn keep_changes(journal: StoreJournal) {
    let image = |text: &str| PathState::File {
        hash: Some(ContentHash::of(text.as_bytes())),
        mode: 0o640,
        size: text.len() as u64,
    };
    let mut call = CallInfo::default();
    call.session = "s".to_owned();
    call.call_id = "call_1".into();
    call.workspace = "/w".into();
    let edit = |from: &str, to: &str| NewJournalEntry {
        path: "a.txt".into(),
        before: image(from),
        content: Some(from.as_bytes().to_vec()),
        after: image(to),
        moved_from: None,
    };
    let long = "fn main() {}\n".repeat(400);
    let entries = [edit(&long, "b")];
    let begun =
        journal.begin(&NewChange { call: &call, tool: "edit", entries: &entries, undoes: &[] });
    let number = begun.expect("kept");
    journal.commit(number);
    let entries = [edit("b", &long)];
    let undoes = [vec![1]];
    let begun =
        journal.begin(&NewChange { call: &call, tool: "undo", entries: &entries, undoes: &undoes });
    // As if the process had been killed before it confirmed the change.
    begun.expect("kept");
}

/// Reads all rows of all tables without haft.
async fn contents(store: &Fresh) -> BTreeMap<String, Vec<String>> {
    match &store.address {
        StoreAddress::Sqlite(path) => of_file(path),
        StoreAddress::Postgres(url) => of_database(url).await,
    }
}

fn of_file(path: &Path) -> BTreeMap<String, Vec<String>> {
    let connection = rusqlite::Connection::open(path).expect("it opens");
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut statement = connection.prepare(sql).expect("ours");
    let names = statement.query_map([], |row| row.get::<_, String>(0)).expect("read");
    let names = names.collect::<Result<Vec<_>, _>>().expect("read");
    let rows = |name: &str| {
        let mut statement = connection.prepare(&format!("SELECT * FROM {name}")).expect("there");
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..width).map(|at| row.get::<_, Cell>(at)).collect::<Result<Vec<_>, _>>()
        });
        let rows = rows.expect("read").map(|row| format!("{:?}", row.expect("read")));
        sorted(rows.collect())
    };
    without_history(names.iter().map(|name| (name.clone(), rows(name))).collect())
}

async fn of_database(url: &str) -> BTreeMap<String, Vec<String>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it is reached");
    tokio::spawn(connection);
    let sql = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'haft'";
    let mut all = BTreeMap::new();
    for found in client.query(sql, &[]).await.expect("read") {
        let name: String = found.get(0);
        let rows = client.query(&format!("SELECT * FROM haft.{name}"), &[]).await.expect("read");
        let cell = |row: &tokio_postgres::Row, at: usize| match *row.columns()[at].type_() {
            Type::INT8 => row.get::<_, Option<i64>>(at).map_or(Cell::Null, Cell::Integer),
            Type::BYTEA => row.get::<_, Option<Vec<u8>>>(at).map_or(Cell::Null, Cell::Blob),
            _ => row.get::<_, Option<String>>(at).map_or(Cell::Null, Cell::Text),
        };
        let line = |row: &tokio_postgres::Row| {
            format!("{:?}", (0..row.len()).map(|at| cell(row, at)).collect::<Vec<_>>())
        };
        all.insert(name, sorted(rows.iter().map(line).collect()));
    }
    without_history(all)
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Removes the table that records when the store was made.
fn without_history(mut all: BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    assert!(all.remove("migrations").is_some_and(|steps| !steps.is_empty()));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_is_copied_and_the_source_stays_as_it_was() {
    for (from, to) in pairs().await {
        fill(&from).await;
        let before = contents(&from).await;
        let empty: Vec<_> = before.iter().filter(|(_, rows)| rows.is_empty()).collect();
        assert!(empty.is_empty(), "the test fills every table: {empty:?}");
        let mut steps = Vec::new();
        let copied =
            copy_store(&from.address, &to.address, |step| steps.push((step.rows, step.of)));
        let copied = copied.await.expect("copied");
        let rows: usize = before.values().map(Vec::len).sum();
        assert_eq!((copied.rows, copied.calls, copied.missed), (rows as u64, 40, 0));
        assert_eq!((copied.faults.len(), copied.left_behind.len()), (0, 0));
        assert_eq!(steps.last().copied(), Some((copied.rows, copied.rows)));
        assert_eq!(contents(&to).await, before, "{:?} to {:?}", from.address, to.address);
        assert_eq!(contents(&from).await, before, "the source");
        let back = like(&from).await;
        copy(&to, &back).await.expect("copied back");
        assert_eq!(contents(&back).await, before, "there and back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_continues_where_the_store_was() {
    for (from, to) in pairs().await {
        fill(&from).await;
        copy(&from, &to).await.expect("copied");
        // With the key of the user, which is in a directory and not in a store.
        let moved = Fresh { folder: from.folder, address: to.address.clone() };
        let rules = moved.rules("here").active("s").await.expect("they are read");
        assert_eq!(rules.len(), 1, "the seal holds");
        let entries = approvals(&moved).entries().await.expect("read").entries;
        let states: BTreeMap<_, _> =
            entries.iter().map(|it| (it.record.request.id.clone(), it.record.state)).collect();
        let expected = [("ask_1", ApprovalState::Approved), ("ask_2", ApprovalState::Pending)];
        assert_eq!(states, expected.map(|(id, state)| (id.to_owned(), state)).into());
        let input = entries.iter().map(|it| it.record.request.input.to_string());
        assert!(input.into_iter().all(|it| it.contains("hunter2-token")), "envelopes open");
        let ledger = moved.ledger();
        ledger.record(change(41)).await.expect("recorded");
        let verified = ledger.verify(None).await.expect("read");
        assert_eq!((verified.entries, verified.faults), (41, Vec::new()));
        let last = moved.number("SELECT seq FROM event_head").await;
        let events = StoreFeed::new(StoreLocation::new(moved.address.clone()));
        let expected =
            events.announce(&Announcement::of("test", "s", &json!({}))).await.expect("announced");
        assert_eq!(i64::try_from(expected).expect("a number"), last + 1);
        keep_changes(StoreJournal::new(
            StoreLocation::new(moved.address.clone()),
            JournalRetention::DEFAULT,
        ));
        assert_eq!(moved.number("SELECT max(number) FROM changes").await, 4);
    }
}

#[tokio::test]
async fn a_database_has_no_sequences() {
    // A copy would have to set a sequence. There is none; a change that adds one must set it.
    let Some(store) = postgres().await else { return };
    Store::open(&store.address).await.expect("made");
    let sql =
        "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'haft'::regnamespace";
    assert_eq!(store.number(sql).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_holds_something_is_refused_by_name_and_left_alone() {
    for (from, to) in pairs().await {
        fill(&from).await;
        to.ledger().record(change(1)).await.expect("recorded");
        let before = contents(&to).await;
        let error = copy(&from, &to).await.expect_err("in use");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("its table `ledger` holds 1 row"), "{error}");
        assert_eq!(contents(&to).await, before);
    }
    for (from, to) in pairs().await {
        fill(&from).await;
        Store::open(&to.address).await.expect("made");
        // As many rows as a new store, but with other contents.
        to.tamper("UPDATE event_head SET seq = 7").await;
        let error = copy(&from, &to).await.expect_err("in use");
        assert!(error.message().contains("`event_head` holds 1 row"), "{error}");
        to.tamper("UPDATE event_head SET seq = 0").await;
        copy(&from, &to).await.expect("it is like new");
    }
}

#[tokio::test]
async fn a_missing_source_is_reported_and_creates_no_target() {
    for (from, to) in pairs().await {
        let error = copy(&from, &to).await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(Store::existing(&to.address).await.expect("looked").is_none());
        fill_a_little(&from).await;
        let itself = copy(&from, &from).await.expect_err("itself");
        assert_eq!(itself.kind(), ErrorKind::Input);
    }
}

async fn fill_a_little(store: &Fresh) {
    store.ledger().record(change(1)).await.expect("recorded");
}

#[tokio::test]
async fn an_older_and_a_newer_source_are_refused_and_not_migrated() {
    let newest = haft_store::newest_version();
    for (from, to) in pairs().await {
        fill_a_little(&from).await;
        from.tamper(&format!("DELETE FROM migrations WHERE version = {newest}")).await;
        let error = copy(&from, &to).await.expect_err("older");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains(&format!("has version {}", newest - 1)), "{error}");
        assert!(error.next_step().contains("haft store info --store"), "{}", error.next_step());
        assert_eq!(from.number("SELECT max(version) FROM migrations").await, newest - 1);
        let newer = newest + 5;
        from.tamper(&format!("INSERT INTO migrations VALUES ({newer}, 'x', 1)")).await;
        let error = copy(&from, &to).await.expect_err("newer");
        assert!(error.message().contains(&format!("version {newer}")), "{error}");
        assert!(error.next_step().contains("update haft"), "{}", error.next_step());
        assert!(Store::existing(&to.address).await.expect("looked").is_none());
    }
}

#[tokio::test]
async fn a_broken_chain_is_copied_and_reported() {
    for (from, to) in pairs().await {
        let ledger = from.ledger();
        for number in 1..=5 {
            ledger.record(change(number)).await.expect("recorded");
        }
        from.tamper("UPDATE ledger SET entry = replace(entry, 'write', 'read') WHERE seq = 3")
            .await;
        from.tamper("CREATE TABLE mine (a BIGINT)").await;
        let copied = copy(&from, &to).await.expect("copied");
        assert_eq!(copied.faults.first().map(|fault| fault.seq), Some(3));
        assert_eq!(copied.left_behind, ["mine"]);
        assert_eq!(contents(&to).await["ledger"], contents(&from).await["ledger"]);
    }
}

#[tokio::test]
async fn values_that_only_one_engine_can_hold_are_reported_by_row_and_column() {
    let Some(to) = postgres().await else { return };
    let from = file();
    for (sql, expected) in [
        ("UPDATE ledger SET tool = CAST(X'610062' AS TEXT)", "column `tool` of `ledger`"),
        ("UPDATE ledger SET tool = CAST(X'ff' AS TEXT)", "column `tool` of row 1 of `ledger`"),
        ("UPDATE ledger SET tool = 'x', began_ms = 'soon'", "column `began_ms` of row 1"),
    ] {
        fill_a_little(&from).await;
        from.tamper(sql).await;
        let error = copy(&from, &to).await.expect_err("it cannot be copied");
        assert!(error.message().contains(expected), "{sql}: {error}");
        assert_eq!(to.number("SELECT count(*) FROM ledger").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_during_the_copy_are_left_out_and_counted() {
    for (from, to) in pairs().await {
        fill(&from).await;
        let before = contents(&from).await;
        let ledger = from.ledger();
        let is_first = AtomicBool::new(true);
        let copied = copy_store(&from.address, &to.address, |step| {
            if step.table == "rules" && is_first.swap(false, Ordering::Relaxed) {
                let ledger = ledger.clone();
                let later = async move { ledger.record(change(50)).await.expect("recorded") };
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(later));
            }
        });
        assert_eq!(copied.await.expect("copied").missed, 1);
        assert_eq!(contents(&to).await, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_during_a_copy_leaves_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let folder = || tempfile::tempdir().expect("a folder");
    let database = Fresh { folder: folder(), address: StoreAddress::Postgres(cluster.url()) };
    let kept = file();
    fill(&kept).await;
    let cluster = Arc::new(cluster);
    for how in ["immediate", "fast"] {
        let error = copy_store(&kept.address, &database.address, |step| {
            if step.table == "entries" {
                cluster.restart(how);
            }
        });
        let error = error.await.expect_err("it went away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(database.number("SELECT count(*) FROM ledger").await, 0, "{how}");
    }
    copy(&kept, &database).await.expect("what is left is as good as new");
    assert_eq!(contents(&database).await, contents(&kept).await);
    // The same with the server as source.
    let other = file();
    let error = copy_store(&database.address, &other.address, |step| {
        if step.table == "entries" {
            cluster.restart("immediate");
        }
    });
    assert_eq!(error.await.expect_err("it went away").kind(), ErrorKind::Unavailable);
    assert_eq!(other.number("SELECT count(*) FROM ledger").await, 0);
    copy(&database, &other).await.expect("again");
    assert_eq!(contents(&other).await, contents(&kept).await);
}

#[tokio::test]
async fn a_busy_target_is_reported_in_bounded_time() {
    let Some(to) = postgres().await else { return };
    let from = file();
    fill_a_little(&from).await;
    Store::open(&to.address).await.expect("made");
    let StoreAddress::Postgres(url) = &to.address else { panic!("a database") };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it is reached");
    tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE haft.chain SET seq = seq").await.expect("held");
    let error = copy(&from, &to).await.expect_err("held by the other");
    assert!(error.message().contains("is busy"), "{error}");
    client.batch_execute("ROLLBACK").await.expect("free");
    copy(&from, &to).await.expect("free now");
}
