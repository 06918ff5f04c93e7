//! Sessions on both engines: noted, labelled, written to, and their history.

use std::path::Path;

use haft_core::{
    ErrorKind, Ledger, LedgerEntry, NewMessage, NewSession, SessionEvent, SessionPatch,
    SessionQuery, Sessions,
};
use haft_store::{Store, StoreLocation, StoreSessions};
use serde_json::{Value, json};

use crate::stores::{Fresh, change, each};

fn sessions(store: &Fresh, workspace: &str) -> StoreSessions {
    StoreSessions::new(StoreLocation::new(store.address.clone()), Path::new(workspace))
}

fn message(author: &str, content: &str) -> NewMessage {
    NewMessage {
        role: "agent".into(),
        author: author.into(),
        content: content.into(),
        call_id: Some("call_1".into()),
    }
}

async fn listed(sessions: &StoreSessions, text: Option<&str>, archived: bool) -> Vec<String> {
    let query = SessionQuery { text: text.map(str::to_owned), archived, limit: 10 };
    let found = sessions.list(&query).await.expect("listed");
    found.into_iter().map(|session| session.id).collect()
}

fn entry(session: &str, number: u64, began_ms: u64) -> LedgerEntry {
    let mut entry = change(number);
    entry.session = session.into();
    entry.began_ms = began_ms;
    entry
}

#[tokio::test]
async fn a_session_exists_once_it_was_noted_and_only_in_its_workspace() {
    for store in each().await {
        let own = sessions(&store, "/w");
        assert!(listed(&own, None, true).await.is_empty());
        let error = own.history("mcp-1", 0, 9).await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(Store::existing(&store.address).await.expect("looked").is_none(), "only looked");
        own.mark_active("mcp-1", &["claude".into()]).await.expect("noted");
        own.mark_active("mcp-1", &["claude".into()]).await.expect("noted");
        let found =
            own.list(&SessionQuery { limit: 9, ..SessionQuery::default() }).await.expect("listed");
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].surface, found[0].client.as_deref()), ("mcp", Some("claude")));
        assert!(found[0].created_ms > 0 && found[0].metadata.is_empty() && !found[0].archived);
        let other = sessions(&store, "/other");
        assert!(listed(&other, None, true).await.is_empty());
        for error in [
            other.history("mcp-1", 0, 9).await.err(),
            other.send("mcp-1", &message("x", "y")).await.err(),
            other.patch("mcp-1", &SessionPatch::default(), None).await.err(),
        ] {
            assert_eq!(error.expect("not here").kind(), ErrorKind::NotFound);
        }
    }
}

#[tokio::test]
async fn titles_metadata_and_archives_are_patched_and_listed() {
    for store in each().await {
        let own = sessions(&store, "/w");
        let newcomer = NewSession::of("mcp-b", &[]);
        own.mark_active("mcp-a", &[]).await.expect("noted");
        store.tamper("UPDATE sessions SET updated_ms = updated_ms - 1000").await;
        let patch = |value: Value| SessionPatch {
            metadata: value.as_object().cloned(),
            ..SessionPatch::default()
        };
        let titled = SessionPatch {
            title: Some("100% Done_\0".into()),
            ..patch(json!({"a": {"x": 1, "y": 2}, "b": 1}))
        };
        own.patch("mcp-b", &titled, Some(&newcomer)).await.expect("made by its own caller");
        let second = patch(json!({"a": {"x": null, "z": 3}, "b": null, "c": {"d": null}}));
        let merged = own.patch("mcp-b", &second, None).await.expect("patched");
        assert_eq!(Value::Object(merged.metadata), json!({"a": {"y": 2, "z": 3}, "c": {}}));
        assert_eq!(merged.title.as_deref(), Some("100% Done_\u{fffd}"), "it stays");
        assert_eq!(listed(&own, None, false).await, ["mcp-b", "mcp-a"]);
        assert_eq!(listed(&own, Some("0% dONE_"), false).await, ["mcp-b"]);
        assert_eq!(listed(&own, Some("P-A"), false).await, ["mcp-a"]);
        assert!(listed(&own, Some("%"), false).await == ["mcp-b"]);
        let german =
            SessionPatch { title: Some("Ärger ÜBER alles".into()), ..SessionPatch::default() };
        own.patch("mcp-a", &german, None).await.expect("patched");
        for words in ["Ärger ÜBER", "alles", "ger ÜBER ALLES"] {
            assert_eq!(listed(&own, Some(words), false).await, ["mcp-a"], "{words}");
        }
        store.tamper("UPDATE sessions SET title = NULL, updated_ms = 1 WHERE id = 'mcp-a'").await;
        let away = SessionPatch {
            archived: Some(true),
            title: Some(String::new()),
            ..SessionPatch::default()
        };
        assert_eq!(own.patch("mcp-b", &away, None).await.expect("patched").title, None);
        assert_eq!(listed(&own, None, false).await, ["mcp-a"]);
        assert_eq!(listed(&own, None, true).await.len(), 2);
        let large = own.patch("mcp-a", &patch(json!({"x": "y".repeat(70_000)})), None).await;
        assert_eq!(large.expect_err("too large").kind(), ErrorKind::Input);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_of_many_senders_have_numbers_without_gaps() {
    for store in each().await {
        sessions(&store, "/w").mark_active("mcp-1", &[]).await.expect("noted");
        let mut tasks = tokio::task::JoinSet::new();
        for sender in 0..5 {
            let own = sessions(&store, "/w");
            tasks.spawn(async move {
                for number in 0..8 {
                    let words = message(&format!("s{sender}"), &format!("{number}"));
                    own.send("mcp-1", &words).await.expect("sent");
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let history = sessions(&store, "/w").history("mcp-1", 0, 100).await.expect("read");
        assert_eq!(
            (history.events.len(), history.session.messages, history.has_more),
            (40, 40, false)
        );
        let mut seqs: Vec<u64> = history
            .events
            .iter()
            .map(|it| match it {
                SessionEvent::Message(message) => message.seq,
                SessionEvent::Call(call) => panic!("{call:?}"),
            })
            .collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=40).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_history_is_messages_and_calls_in_order_by_pages() {
    for store in each().await {
        let own = sessions(&store, "/w");
        let ledger = store.ledger();
        own.mark_active("mcp-1", &[]).await.expect("noted");
        for number in 0..4 {
            ledger.record(entry("mcp-1", number, 1_000 + number)).await.expect("recorded");
            ledger.record(entry("mcp-2", number, 1_000 + number)).await.expect("recorded");
        }
        own.send("mcp-1", &message("mcp-2", "hello\0")).await.expect("sent");
        let words = |happened: &[SessionEvent]| -> Vec<String> {
            let word = |it: &SessionEvent| match it {
                SessionEvent::Message(message) => message.content.clone(),
                SessionEvent::Call(call) => call.call_id.clone(),
            };
            happened.iter().map(word).collect()
        };
        let latest = own.history("mcp-1", 0, 2).await.expect("read");
        assert_eq!(words(&latest.events), ["call_3", "hello\u{fffd}"]);
        assert!(latest.has_more);
        let before = own.history("mcp-1", 2, 9).await.expect("read");
        assert_eq!(words(&before.events), ["call_0", "call_1", "call_2"]);
        assert!(!before.has_more);
        // A session id that all workspaces share shows calls only in a store of one workspace.
        ledger.record(entry("cli", 9, 5)).await.expect("recorded");
        own.mark_active("cli", &[]).await.expect("noted");
        assert!(own.history("cli", 0, 9).await.expect("read").events.is_empty());
    }
}

#[tokio::test]
async fn the_pages_of_a_history_have_every_call_once_whatever_order_they_began_in() {
    for store in each().await {
        let own = sessions(&store, "/w");
        let ledger = store.ledger();
        own.mark_active("mcp-1", &[]).await.expect("noted");
        // They end one after the other; the later ones took longer and began earlier.
        for number in 0..12_u64 {
            let mut call = entry("mcp-1", number, 10_000 - number * 500);
            call.ms = number * 600;
            ledger.record(call).await.expect("recorded");
        }
        let mut seen = Vec::new();
        for offset in (0..12).step_by(3) {
            let page = own.history("mcp-1", offset, 3).await.expect("read");
            assert_eq!(page.has_more, offset < 9);
            seen.extend(page.events.iter().rev().map(|it| match it {
                SessionEvent::Call(call) => call.call_id.clone(),
                SessionEvent::Message(message) => panic!("{message:?}"),
            }));
        }
        let expected: Vec<String> = (0..12).rev().map(|number| format!("call_{number}")).collect();
        assert_eq!(seen, expected);
    }
}
