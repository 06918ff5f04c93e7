//! Servers that are killed with SIGKILL at any moment: everything that they did is in the ledger,
//! and approved calls are neither lost nor run twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Stdio,
    time::Instant,
};

use serde_json::{Value, json};

use super::{journal::PseudoRandom, usual};
use crate::{
    fixture::Fixture,
    mcp_stdio::{Client, TIMEOUT},
};

/// Returns all entries, including begin entries.
fn exported(fixture: &Fixture) -> Vec<Value> {
    let ran = fixture.run(&["ledger", "export"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect()
}

fn is_begun(row: &Value) -> bool {
    row["entry"]["process"].is_string()
}

#[test]
fn whatever_a_killed_call_has_done_was_begun_in_the_ledger() {
    const ROUNDS: u64 = 100;
    let fixture = Fixture::new().user_config("approve = \"all\"\nsandbox = \"off\"\n");
    let mut dice = PseudoRandom(31);
    for round in 0..ROUNDS {
        let mut client = Client::introduced(&fixture, json!({}));
        for id in 0..6 {
            let name = format!("made-{round}-{id}");
            match id % 3 {
                0 => {
                    client.call(id, "bash", json!({"command": format!("touch {name}; sleep 0.01")}))
                }
                1 => client.call(id, "write", json!({"path": name, "content": "x"})),
                _ => client.call(id, "make_directory", json!({"path": name})),
            }
        }
        (0..dice.roll(6)).for_each(|_| drop(client.next()));
        dice.dawdle();
        client.kill();
    }
    let rows = exported(&fixture);
    let begun: Vec<String> = rows
        .iter()
        .filter(|row| is_begun(row))
        .map(|row| row["entry"]["input"].to_string())
        .collect();
    let mut effects = 0;
    for file in fs::read_dir(fixture.path("project")).expect("there").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.starts_with("made-") {
            continue;
        }
        effects += 1;
        let is_of = |input: &&String| {
            input.contains(&format!("{name}\"")) || input.contains(&format!("{name};"))
        };
        assert!(begun.iter().any(|input| is_of(&input)), "{name} is there, and no entry begins it");
    }
    assert!(effects > 100, "only {effects} calls did anything");
    check_interrupted(&fixture, &rows);
}

/// Checks that exactly the begin entries without an end are shown as interrupted.
fn check_interrupted(fixture: &Fixture, rows: &[Value]) {
    let ended: BTreeSet<u64> =
        rows.iter().filter_map(|row| row["entry"]["begun_seq"].as_u64()).collect();
    let seqs = rows.iter().filter(|row| is_begun(row)).filter_map(|row| row["seq"].as_u64());
    let interrupted: BTreeSet<u64> = seqs.filter(|seq| !ended.contains(seq)).collect();
    assert!(interrupted.len() > 10, "only {} calls were interrupted", interrupted.len());
    let verified = fixture.run(&["ledger", "verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let told: BTreeMap<u64, String> =
        serde_json::from_value(verified.json()["unended"].clone()).expect("numbers");
    assert_eq!(told.keys().copied().collect::<BTreeSet<_>>(), interrupted);
    assert!(told.values().all(|ending| ending == "interrupted"), "{told:?}");
    let shown = fixture.run(&["ledger", "show", "--limit", "2000"]).out;
    assert_eq!(shown.matches(", interrupted").count(), interrupted.len());
}

/// Returns the requests of the store, by the number in their commands.
fn requests(fixture: &Fixture) -> BTreeMap<u64, Value> {
    let rows: Vec<Value> =
        serde_json::from_str(&fixture.run(&["approvals", "list", "--all", "--json"]).out)
            .expect("a list");
    let number = |row: &Value| {
        let command = row["request"]["input"]["command"].as_str()?;
        command.split(' ').nth(1)?.parse().ok()
    };
    rows.into_iter().filter_map(|row| Some((number(&row)?, row))).collect()
}

fn id(row: &Value) -> &str {
    row["request"]["id"].as_str().expect("an id")
}

/// Returns how often each call ran.
fn runs(fixture: &Fixture) -> BTreeMap<u64, usize> {
    let text = fs::read_to_string(fixture.path("project/ran.txt")).unwrap_or_default();
    let mut runs = BTreeMap::new();
    for number in text.lines().filter_map(|line| line.parse().ok()) {
        *runs.entry(number).or_default() += 1;
    }
    runs
}

#[test]
fn of_a_hundred_approved_calls_whose_asker_was_killed_none_is_lost_and_none_runs_twice() {
    const ROUNDS: u64 = 10;
    const AT_ONCE: u64 = 10;
    let config = "approve = \"none\"\nsandbox = \"off\"\n[approvals]\nelsewhere = true\n";
    let fixture = Fixture::new().user_config(config);
    let mut dice = PseudoRandom(47);
    for round in 0..ROUNDS {
        let numbers: Vec<u64> = (0..AT_ONCE).map(|at| round * AT_ONCE + at).collect();
        let mut client = Client::introduced(&fixture, json!({}));
        for number in &numbers {
            client.call(*number, "bash", json!({"command": format!("echo {number} >> ran.txt")}));
        }
        let began = Instant::now();
        let asked = loop {
            let asked = requests(&fixture);
            if numbers.iter().all(|number| asked.contains_key(number)) {
                break asked;
            }
            assert!(began.elapsed() < TIMEOUT, "not all are asked about");
        };
        let approve = |number: &u64| {
            let mut command =
                fixture.haft_without_terminal(&["approvals", "approve", id(&asked[number])]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("haft runs")
        };
        let mut approving: Vec<_> = numbers.iter().map(approve).collect();
        // Killed before the first approval in some rounds, after the last one in others.
        let until = Instant::now() + std::time::Duration::from_millis(dice.roll(700));
        while Instant::now() < until {
            dice.dawdle();
        }
        client.kill();
        for child in &mut approving {
            let code = child.wait().expect("it ends").code();
            // 4 for calls that the server claimed just before it was killed.
            assert!(matches!(code, Some(0 | 4)), "{code:?}");
        }
    }
    // Unclaimed calls are listed again and run when they are approved again. A call claimed by a
    // killed server is free when that server's lease expires; until then an approval is a conflict.
    let began = Instant::now();
    loop {
        let all = requests(&fixture);
        let free: Vec<&Value> = all.values().filter(|row| row["fate"] == "not_run").collect();
        if free.is_empty() {
            break;
        }
        for row in free {
            let ran = fixture.run_without_terminal(&["approvals", "approve", id(row)]);
            assert!(matches!(ran.code, 0 | 4), "{row}: {ran:?}");
        }
        assert!(began.elapsed() < TIMEOUT, "some are never free");
    }
    let (runs, requests) = (runs(&fixture), requests(&fixture));
    assert_eq!(requests.len() as u64, ROUNDS * AT_ONCE);
    let rows = exported(&fixture);
    let mut unknown = 0;
    for (number, row) in &requests {
        let count = runs.get(number).copied().unwrap_or_default();
        assert!(count <= 1, "{number} ran {count} times: {row}");
        if row["fate"] == "unknown" {
            unknown += 1;
            let call = &row["request"]["call_id"];
            assert!(
                rows.iter().any(|row| is_begun(row) && row["entry"]["call_id"] == *call),
                "{row}"
            );
        } else {
            assert_eq!(count, 1, "{number} is lost: {row}");
        }
    }
    assert!(unknown < 50, "{unknown} of a hundred are unknown");
    let pending = requests.values().filter(|row| row["state"] == "pending").count();
    assert_eq!(pending, 0, "no request is made twice");
    assert!(usual(&fixture).exists());
}
