//! Retention of the ledger with real processes: configured, with concurrent writers, killed, and on
//! a small disk.

use std::fs;

use serde_json::{Value, json};

use super::{journal::PseudoRandom, recorded, usual};
use crate::{fixture::Fixture, mcp_stdio::Client, small_disk::SmallDisk};

fn limited(bytes: u64) -> Fixture {
    Fixture::new().user_config(&format!("sandbox = \"off\"\n[store]\nledger_bytes = {bytes}\n"))
}

/// Makes calls with their number in the input and waits for the answers.
fn calls(client: &mut Client, ids: std::ops::Range<u64>, tool: &str, input: impl Fn(u64) -> Value) {
    let count = ids.clone().count();
    ids.for_each(|id| client.call(id, tool, input(id)));
    for _ in 0..count {
        let answer = client.next();
        assert!(answer["result"].is_object(), "{answer}");
        assert!(!answer.to_string().contains("not_recorded"), "{answer}");
    }
}

fn hello(id: u64) -> Value {
    json!({"name": format!("number {id}")})
}

fn end(mut client: Client) {
    client.close();
    client.rest();
    assert!(client.exit().success());
}

fn verified(fixture: &Fixture) -> Value {
    let ran = fixture.run(&["ledger", "verify", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

#[test]
fn a_client_that_reads_in_a_loop_pushes_no_change_out_of_the_ledger() {
    let fixture = limited(100_000);
    let mut client = Client::introduced(&fixture, json!({}));
    let write = |id| json!({"path": format!("{id}.txt"), "content": "x"});
    calls(&mut client, 0..20, "write", write);
    calls(&mut client, 100..1_500, "hello", hello);
    end(client);
    let found = verified(&fixture);
    assert!(found["dropped"]["read_only"].as_u64() > Some(1_000), "{found}");
    assert_eq!(found["dropped"]["changing"], 0, "{found}");
    let entries = recorded(&usual(&fixture));
    assert_eq!(entries.iter().filter(|it| it.tool == "write").count(), 20);
    let told = fixture.run(&["ledger", "verify"]);
    assert!(told.out.contains("older entries were dropped by retention"), "{told:?}");
    let stats = fixture.run(&["ledger", "stats", "--json"]).json();
    assert_eq!(stats["by_tool"]["write"]["calls"], 20);
    // Other missing entries are detected.
    super::commands::tamper(&fixture, "DELETE FROM ledger WHERE tool = 'write' AND kind = 2");
    assert_eq!(fixture.run(&["ledger", "verify"]).code, 4);
}

#[test]
fn equal_reads_in_a_loop_are_counted_in_few_entries() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture, json!({}));
    calls(&mut client, 0..2_000, "hello", |_| json!({"name": "Ada"}));
    end(client);
    let info = fixture.run(&["store", "info", "--json"]).json();
    assert_eq!(info["calls"], 2_000, "{info}");
    assert!(info["entries"].as_u64() < Some(500), "{info}");
    let stats = fixture.run(&["ledger", "stats", "--json"]).json();
    assert_eq!(stats["by_tool"]["hello"]["calls"], 2_000, "{stats}");
    assert!(fixture.run(&["ledger", "show"]).out.contains("hello x"), "the table shows it");
    assert_eq!(verified(&fixture)["whole"], true);
}

#[test]
fn what_was_written_can_be_undone_however_little_is_kept() {
    let fixture = limited(0);
    for number in 0..3 {
        let input = json!({"path": format!("{number}.txt"), "content": "x"}).to_string();
        assert_eq!(fixture.run(&["call", "write", &input]).code, 0);
    }
    (0..30).for_each(|_| drop(fixture.run(&["hello", "Ada"])));
    let pruned = fixture.run(&["ledger", "prune", "--json"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    let writes = recorded(&usual(&fixture)).iter().filter(|it| it.tool == "write").count();
    assert_eq!(writes, 3);
    assert!(recorded(&usual(&fixture)).len() < 10, "the rest is gone");
    assert_eq!(fixture.run(&["undo", "--session", "all"]).code, 0);
    assert!(!fixture.path("project/0.txt").exists());
}

#[test]
fn a_person_sees_what_would_go_and_lets_it_go() {
    let fixture = Fixture::new();
    (0..30).for_each(|number| drop(fixture.run(&["hello", &number.to_string()])));
    let fixture = fixture.user_config("[store]\nledger_bytes = 5000\n");
    let would = fixture.run(&["ledger", "prune", "--dry-run"]);
    assert!(would.code == 0 && would.out.contains("would be dropped"), "{would:?}");
    assert_eq!(recorded(&usual(&fixture)).len(), 30, "nothing is gone");
    let pruned = fixture.run(&["ledger", "prune"]);
    assert_eq!(pruned.out, would.out.replace("would be", "were"), "{pruned:?}");
    assert!(recorded(&usual(&fixture)).len() < 10);
    let shown = fixture.run(&["ledger", "show"]).out;
    assert!(shown.contains("older entries dropped"), "{shown}");
    let wrong = fixture.run(&["ledger", "prune", "--older"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    for (config, told) in [
        ("[store]\nledger_bytes = \"much\"\n", "store.ledger_bytes"),
        ("[store]\nledger_days = -1\n", "store.ledger_days"),
        ("[store]\nledger_size = 1\n", "ledger_size"),
    ] {
        let fixture = Fixture::new().user_config(config);
        let ran = fixture.run(&["hello", "Ada"]);
        assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
    }
    let project = Fixture::new().project_config("[store]\nledger_bytes = 0\n");
    assert_eq!(project.run(&["hello", "Ada"]).code, 2, "what came with the code drops nothing");
}

#[test]
fn a_replay_says_that_calls_of_its_session_are_gone() {
    let fixture = Fixture::new();
    let mut client = Client::of(fixture.haft(&["mcp", "--keep-results"]));
    client.listen();
    client.introduce(json!({}));
    calls(&mut client, 0..40, "hello", hello);
    end(client);
    let session = fixture.run(&["ledger", "show", "--json"]).json()[0]["entry"]["session"].clone();
    let session = session.as_str().expect("a session").to_owned();
    let fixture = fixture.user_config("[store]\nledger_bytes = 0\n");
    fixture.run(&["ledger", "prune"]);
    let kept = fixture.run(&["replay", &session, "--list"]);
    assert!(kept.code == 0 && !kept.err.contains("incomplete"), "results hold them: {kept:?}");
    super::commands::tamper(
        &fixture,
        "DELETE FROM call_results WHERE seq <= 30; DELETE FROM results WHERE hash NOT IN (SELECT hash FROM call_results)",
    );
    fixture.run(&["ledger", "prune"]);
    let told = fixture.run(&["replay", &session, "--list"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.err.contains("is incomplete: 30 older calls were dropped"), "{told:?}");
    assert_eq!(told.out.lines().count(), 10, "{told:?}");
}

#[test]
fn killed_while_it_makes_room_the_ledger_is_whole_and_has_every_change_that_was_answered() {
    let fixture = limited(30_000);
    let mut dice = PseudoRandom(23);
    let mut dropped = 0;
    for round in 0..40_u64 {
        let mut client = Client::introduced(&fixture, json!({}));
        for id in 0..60 {
            match id % 6 {
                0 => {
                    let path = format!("{round}-{id}.txt");
                    client.call(id, "write", json!({"path": path, "content": "x"}));
                }
                _ => client.call(id, "hello", hello(round * 100 + id)),
            }
        }
        let answered: Vec<Value> = (0..=dice.roll(50)).map(|_| client.next()).collect();
        dice.dawdle();
        client.kill();
        // This also verifies the chain.
        let entries = recorded(&usual(&fixture));
        for answer in
            answered.iter().filter(|answer| answer["id"].as_u64().is_some_and(|id| id % 6 == 0))
        {
            let path = json!(format!("{round}-{}.txt", answer["id"]));
            assert!(entries.iter().any(|it| it.input["path"] == path), "{path} was answered");
        }
        dropped =
            dropped.max(verified(&fixture)["dropped"]["entries"].as_u64().unwrap_or_default());
    }
    assert!(dropped > 500, "only {dropped} entries were dropped");
}

#[test]
fn servers_at_once_keep_the_ledger_small_and_whole() {
    let fixture = limited(60_000);
    let mut clients = [0, 1, 2].map(|_| Client::introduced(&fixture, json!({})));
    for (number, client) in clients.iter_mut().enumerate() {
        for id in 0..300 {
            client.call(id, "hello", hello(number as u64 * 1_000 + id));
        }
    }
    for client in &mut clients {
        for _ in 0..300 {
            let answer = client.next();
            assert!(!answer.to_string().contains("not_recorded"), "{answer}");
        }
    }
    clients.into_iter().for_each(end);
    let found = verified(&fixture);
    let left: u64 = recorded(&usual(&fixture)).iter().map(haft::LedgerEntry::calls).sum();
    assert_eq!(
        found["dropped"]["read_only"].as_u64().map(|gone| gone + left),
        Some(900),
        "{found}"
    );
    assert!(left < 300, "{left}");
}

#[test]
fn on_a_small_disk_a_limited_ledger_goes_on_for_ever() {
    let fixture = limited(100_000);
    let Some(disk) = SmallDisk::new(&fixture, "7m") else {
        // Without root there is no small disk; another test checks the size.
        return assert!(!fixture.path("small/haft.db").exists());
    };
    let store = disk.0.join("haft.db").display().to_string();
    let mut client = Client::start(&fixture, &["--store", &store]);
    client.listen();
    client.introduce(json!({}));
    // Without a limit these would fill the disk, together with SQLite's log.
    calls(&mut client, 0..8_000, "hello", hello);
    end(client);
    assert!(fs::metadata(&store).expect("there").len() < 2 << 20);
    recorded(&disk.0.join("haft.db"));
}
