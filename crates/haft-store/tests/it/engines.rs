//! Properties of both engines.

use std::collections::BTreeSet;

use haft_core::{ErrorKind, Ledger, Remember, SavedRule, SavedRules, Scope, ToolError};
use haft_store::{LedgerFilter, Store, StoreRules};

use crate::stores::{change, each, read_call};

#[tokio::test]
async fn what_is_recorded_is_read_back_by_another_process() {
    for store in each().await {
        let ledger = store.ledger();
        for number in 1..=5 {
            ledger.record(change(number)).await.expect("recorded");
        }
        ledger.record(read_call(6)).await.expect("recorded");
        ledger.flush().await.expect("written");
        let newest = store.ledger().newest(9).await.expect("read");
        assert_eq!(newest.len(), 6, "{:?}", store.address);
        assert_eq!((&newest[0], &newest[5]), (&read_call(6), &change(1)));
        let filter = LedgerFilter {
            tool: Some("write".into()),
            since_ms: 1003,
            most: 2,
            ..LedgerFilter::default()
        };
        let found = ledger.find(&filter).await.expect("read");
        assert_eq!(found.iter().map(|it| it.seq).collect::<Vec<_>>(), [5, 4]);
        let info = Store::open(&store.address).await.expect("opens").info().await.expect("read");
        assert_eq!((info.entries, info.rules, info.version), (6, 0, haft_store::newest_version()));
        assert!(info.bytes > 0, "{info:?}");
    }
}

#[tokio::test]
async fn reading_creates_no_store() {
    for store in each().await {
        let ledger = store.ledger();
        assert!(ledger.newest(1).await.expect("nothing").is_empty());
        assert_eq!(ledger.verify(None).await.expect("nothing").entries, 0);
        assert!(store.rules("here").active("s").await.expect("nothing").is_empty());
        assert!(Store::existing(&store.address).await.expect("nothing").is_none());
    }
}

#[tokio::test]
async fn tampering_is_found_where_it_was_done() {
    for (sql, seq, expected) in [
        ("UPDATE ledger SET entry = replace(entry, 'write', 'read') WHERE seq = 3", 3, "hash"),
        ("UPDATE ledger SET tool = 'read' WHERE seq = 4", 4, "column `tool`"),
        ("DELETE FROM ledger WHERE seq IN (2, 3)", 2, "entries 2 to 3 are missing"),
        ("DELETE FROM ledger WHERE seq = 5", 5, "the last, is missing"),
        ("UPDATE chain SET hash = 'x'", 5, "another hash for its end"),
    ] {
        for store in each().await {
            let ledger = store.ledger();
            for number in 1..=5 {
                ledger.record(change(number)).await.expect("recorded");
            }
            let whole = ledger.verify(None).await.expect("read");
            assert_eq!((whole.entries, &*whole.faults), (5, &[][..]));
            store.tamper(sql).await;
            let faults = ledger.verify(None).await.expect("read").faults;
            let is_found = faults.iter().any(|it| it.seq == seq && it.what.contains(expected));
            assert!(is_found, "{sql}: {faults:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_of_several_openings_make_one_chain() {
    for store in each().await {
        let ledgers = [store.ledger(), store.ledger()];
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..16_u64 {
            let ledger = ledgers[(task % 2) as usize].clone();
            tasks.spawn(async move {
                for number in 0..25 {
                    let made = if number % 2 == 0 { read_call } else { change };
                    ledger.record(made(task * 100 + number)).await.expect("recorded");
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        for ledger in &ledgers {
            ledger.flush().await.expect("written");
        }
        let verified = ledgers[0].verify(None).await.expect("read");
        assert_eq!((verified.entries, verified.faults), (400, Vec::new()));
        let all = ledgers[1].newest(9_999).await.expect("read");
        let different: BTreeSet<&str> = all.iter().map(|entry| &*entry.call_id).collect();
        assert_eq!(different.len(), 400, "none lost, none twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_can_create_a_store_at_once() {
    for store in each().await {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let ledger = store.ledger();
            tasks.spawn(async move { ledger.record(change(number)).await });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic").expect("recorded");
        }
        assert_eq!(store.ledger().verify(None).await.expect("read").entries, 8);
    }
}

async fn save(rules: &StoreRules, rule: &str, scope: Scope) -> Result<SavedRule, ToolError> {
    let remember = Remember { rules: vec![rule.to_owned()], scope, expires_ms: None };
    rules.save("s", "Ann", &remember).await.map(|mut saved| saved.remove(0))
}

async fn texts(rules: &StoreRules, session: &str) -> Vec<String> {
    let rules = rules.active(session).await.expect("they can be read");
    rules.into_iter().map(|rule| rule.text.to_string()).collect()
}

#[tokio::test]
async fn rules_reach_as_far_as_their_scope_and_are_seen_by_others_at_once() {
    for store in each().await {
        let (one, two) = (store.rules("here"), store.rules("here"));
        assert!(texts(&one, "s").await.is_empty());
        save(&two, "bash(a *)", Scope::Session).await.expect("kept");
        let project = save(&two, "bash(b *)", Scope::Project).await.expect("kept");
        save(&two, "bash(c *)", Scope::User).await.expect("kept");
        assert_eq!(texts(&one, "s").await, ["bash(a *)", "bash(b *)", "bash(c *)"]);
        assert_eq!(texts(&one, "other").await, ["bash(b *)", "bash(c *)"]);
        assert_eq!(texts(&store.rules("there"), "s").await, ["bash(c *)"]);
        assert_eq!(one.revoke(&project.id).await.expect("it is there"), project);
        assert_eq!(texts(&two, "other").await, ["bash(c *)"]);
        let gone = two.revoke(&project.id).await.expect_err("it is gone");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_modified_rule_does_not_count() {
    for store in each().await {
        let rules = store.rules("here");
        save(&rules, "bash(a *)", Scope::Project).await.expect("kept");
        store.tamper("UPDATE rules SET rule = 'bash(*)'").await;
        rules.active("s").await.expect_err("it is reported");
        assert!(texts(&rules, "s").await.is_empty());
    }
}

#[tokio::test]
async fn a_store_of_a_newer_haft_is_refused_with_advice() {
    for store in each().await {
        store.ledger().record(change(1)).await.expect("recorded");
        store.tamper("INSERT INTO migrations VALUES (99, 'x', 0)").await;
        let error = Store::open(&store.address).await.err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("version 99, written by a newer haft"), "{error}");
        assert!(error.next_step().contains("update haft"));
        let expected = store.ledger().record(change(2)).await.expect_err("not written");
        assert!(expected.message().contains("newer haft"), "{expected}");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_breaks_nothing() {
    for store in each().await {
        let ledger = store.ledger();
        for began_ms in [5_000, 4_000, 0, 6_000] {
            let mut entry = change(began_ms);
            entry.began_ms = began_ms;
            ledger.record(entry).await.expect("recorded");
        }
        assert_eq!(ledger.verify(None).await.expect("read").faults, []);
        let newest = ledger.newest(9).await.expect("read");
        let times: Vec<u64> = newest.iter().map(|entry| entry.began_ms).collect();
        assert_eq!(times, [6_000, 0, 4_000, 5_000], "in the order in which they ended");
    }
}
