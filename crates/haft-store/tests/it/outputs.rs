//! Whole outputs on both engines: read back in pieces, stored once, and deleted in time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_core::{ErrorKind, OutputPosition, OutputSource, Outputs};
use haft_store::{OutputRetention, StoreAddress, StoreLocation, StoreOutputs};

use crate::stores::{Fresh, each};

fn made_by(call: &str) -> OutputSource {
    OutputSource { session: "s\0".into(), call_id: call.into(), tool: "bash".into() }
}

/// Returns a text of this many bytes that hardly compresses, different for each seed.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 90).expect("below 90"))
    };
    (0..bytes).map(|_| letter()).collect()
}

async fn keep(outputs: &StoreOutputs, text: &str) -> String {
    let receipt = outputs.keep(text.to_owned(), made_by("call_1")).await.expect("kept");
    assert_eq!(receipt.note, None);
    receipt.id
}

const TEXTS: &str = "SELECT count(*) FROM output_texts";

#[tokio::test]
async fn outputs_are_read_by_another_process_in_pieces() {
    for store in each().await {
        let text: String = (1..=60_000).map(|n| format!("line {n}: ä\0€\n")).collect();
        let id = keep(&store.outputs("/w", OutputRetention::default()), &text).await;
        let other = store.outputs("/w", OutputRetention::default());
        let kept = other.find(&id).await.expect("found");
        assert_eq!((kept.bytes, kept.lines), (text.len() as u64, 60_000));
        assert_eq!((&*kept.made_by.call_id, &*kept.made_by.session), ("call_1", "s\u{fffd}"));
        assert_eq!(&*other.read(&id).await.expect("read"), text);
        for line in [1, 2, 30_000, 60_000, 60_001] {
            let piece = other.piece(&id, OutputPosition::Line(line)).await.expect("read");
            assert!(piece.first_line <= line && piece.text.len() < 300 << 10, "{line}");
            let start = format!("line {line}: ");
            let next = other.piece(&id, OutputPosition::Byte(piece.end())).await.expect("read");
            let near = piece.text.contains(&start) || next.text.starts_with(&start);
            assert!(near || line > 60_000, "{line} is not in the piece from {}", piece.first_line);
        }
        let end = other.piece(&id, OutputPosition::Byte(kept.bytes)).await.expect("read");
        assert_eq!((end.first_byte, &*end.text), (kept.bytes, ""));
    }
}

#[tokio::test]
async fn an_output_belongs_to_its_workspace_and_unknown_ids_are_reported() {
    for store in each().await {
        let outputs = store.outputs("/w", OutputRetention::default());
        let gone = outputs.find("out_1").await.expect_err("no store");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        let id = keep(&outputs, "text").await;
        let elsewhere = store.outputs("/other", OutputRetention::default());
        for id in [&*id, "out_\0", ""] {
            let error = elsewhere.find(id).await.expect_err("not of this workspace");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{id}");
            let error =
                elsewhere.piece(id, OutputPosition::Byte(0)).await.expect_err("nor its text");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{id}");
        }
        assert_eq!(&*outputs.read(&keep(&outputs, "").await).await.expect("empty"), "");
    }
}

#[tokio::test]
async fn reading_an_output_creates_no_store() {
    for store in each().await {
        let outputs = store.outputs("/w", OutputRetention::default());
        assert!(outputs.find("out_1").await.is_err());
        assert!(outputs.piece("out_1", OutputPosition::Line(1)).await.is_err());
        let there = haft_store::Store::existing(&store.address).await.expect("can be looked for");
        assert!(there.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_text_is_kept_once_however_many_keep_it_at_once() {
    for store in each().await {
        let text = Arc::new(noise(7, 3 << 20));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (outputs, text) = (store.outputs("/w", OutputRetention::default()), text.clone());
            tasks.spawn(async move { keep(&outputs, &text).await });
        }
        let ids: BTreeSet<String> = tasks.join_all().await.into_iter().collect();
        assert_eq!(ids.len(), 6);
        let whole = format!("{TEXTS} WHERE whole = 1");
        assert_eq!(store.number(&whole).await, 1, "{:?}", store.address);
        let outputs = store.outputs("/w", OutputRetention::default());
        for id in &ids {
            assert_eq!(&*outputs.read(id).await.expect("read"), text.as_str());
        }
    }
}

#[tokio::test]
async fn the_oldest_go_when_the_quota_is_full_and_nothing_before() {
    for store in each().await {
        let retention = OutputRetention { bytes: 100_000, ..OutputRetention::default() };
        let outputs = store.outputs("/w", retention.clone());
        let other = store.outputs("/other", retention);
        let of_other = keep(&other, &noise(99, 20_000)).await;
        let mut ids = Vec::new();
        for seed in 0..12 {
            ids.push(keep(&outputs, &noise(seed, 20_000)).await);
            // Older than the next one, even where the clock is coarse.
            store.tamper("UPDATE output_texts SET kept_ms = kept_ms - 1000").await;
        }
        let mut there = Vec::new();
        for id in &ids {
            there.push(outputs.read(id).await.is_ok());
        }
        assert!(!there[0] && there[11] && there[10] && there[9], "{there:?}");
        let taken = "SELECT CAST(sum(packed) AS BIGINT) FROM output_texts WHERE workspace = '/w'";
        assert!(store.number(taken).await <= 100_000);
        assert!(other.read(&of_other).await.is_ok(), "of another workspace");
        assert_eq!(store.number(ORPHANS).await, 0);
        assert_eq!(
            store
                .number(
                    "SELECT count(*) FROM outputs WHERE text NOT IN (SELECT id FROM output_texts)"
                )
                .await,
            0
        );
    }
}

#[tokio::test]
async fn old_and_unfinished_outputs_go_but_never_recent_ones() {
    for store in each().await {
        let at_once = OutputRetention { age: Duration::ZERO, ..OutputRetention::default() };
        let outputs = store.outputs("/w", at_once);
        let recent = keep(&outputs, "recent").await;
        let old = keep(&outputs, "old").await;
        store.tamper(&format!("UPDATE output_texts SET kept_ms = kept_ms - 3700000 WHERE id = (SELECT text FROM outputs WHERE id = '{old}')")).await;
        store.tamper("INSERT INTO output_texts VALUES ('half', '/w', 'x', 9, 1, 0, 0, 5)").await;
        store.tamper("INSERT INTO output_pieces VALUES ('half', 0, 1, '', 0)").await;
        keep(&outputs, "another").await;
        assert_eq!(outputs.find(&old).await.expect_err("old").kind(), ErrorKind::NotFound);
        assert!(outputs.find(&recent).await.is_ok());
        assert_eq!(store.number(TEXTS).await, 2);
        assert_eq!(store.number("SELECT count(*) FROM output_pieces").await, 2);
    }
}

const ORPHANS: &str =
    "SELECT count(*) FROM output_pieces WHERE text NOT IN (SELECT id FROM output_texts)";

/// Inserts a text that a process began to store this long ago.
async fn half(store: &Fresh, name: &str, ago_ms: u64) {
    let row = format!(
        "INSERT INTO output_texts SELECT '{name}', '/w', '{name}', 9, 1, 0, 0, max(kept_ms) - {ago_ms} FROM output_texts"
    );
    store.tamper(&row).await;
    let piece = format!(
        "INSERT INTO output_pieces SELECT '{name}', first_byte, first_line, packed, packing FROM output_pieces LIMIT 1"
    );
    store.tamper(&piece).await;
}

#[tokio::test]
async fn unfinished_outputs_go_after_an_hour_and_those_being_written_stay() {
    for store in each().await {
        let retention = OutputRetention { bytes: 30_000, ..OutputRetention::default() };
        let outputs = store.outputs("/w", retention);
        keep(&outputs, "first").await;
        half(&store, "left", 3_700_000).await;
        half(&store, "going_on", 3_500_000).await;
        keep(&outputs, "there is room, and nothing is old").await;
        assert_eq!(store.number("SELECT count(*) FROM output_texts WHERE whole = 0").await, 1);
        // Now the quota is exceeded, and all the others have to go.
        keep(&outputs, &noise(1, 20_000)).await;
        keep(&outputs, &noise(2, 20_000)).await;
        let going_on = format!("{TEXTS} WHERE id = 'going_on'");
        assert_eq!((store.number(&going_on).await, store.number(TEXTS).await), (1, 2));
        assert_eq!(store.number(ORPHANS).await, 0);
    }
}

#[tokio::test]
async fn a_text_that_is_still_being_written_does_not_count_as_stored() {
    for store in each().await {
        let outputs = store.outputs("/w", OutputRetention::default());
        keep(&outputs, "the same").await;
        store.tamper("UPDATE output_texts SET whole = 0").await;
        store.tamper("DELETE FROM output_pieces").await;
        let id = keep(&outputs, "the same").await;
        assert_eq!(&*outputs.read(&id).await.expect("whole"), "the same");
    }
}

#[tokio::test]
async fn the_newest_output_stays_however_many_are_deleted_for_it() {
    for others in [7, 8, 9, 17] {
        for store in each().await {
            let retention = OutputRetention { bytes: 60_000, ..OutputRetention::default() };
            let outputs = store.outputs("/w", retention);
            for number in 0..others {
                keep(&outputs, &format!("short {number}")).await;
            }
            // More than nine tenths of the quota alone, however it is compressed.
            let id = keep(&outputs, &noise(others, 59_999)).await;
            store.tamper("UPDATE output_texts SET packed = 59000 WHERE bytes > 1000").await;
            let last = keep(&outputs, &noise(99, 59_000)).await;
            assert!(outputs.read(&id).await.is_err(), "{others}: it made room");
            assert_eq!(outputs.read(&last).await.expect("kept").len(), 59_000, "{others}");
            assert_eq!(store.number(TEXTS).await, 1, "{others}: all the others had to go");
        }
    }
}

#[tokio::test]
async fn an_output_that_fails_half_way_leaves_nothing() {
    for store in each().await {
        let outputs = store.outputs("/w", OutputRetention::default());
        keep(&outputs, "first").await;
        let bytes = match &store.address {
            StoreAddress::Sqlite(_) => "BLOB",
            StoreAddress::Postgres(_) => "BYTEA",
        };
        // A store that is full after five megabytes.
        store.tamper("DROP TABLE output_pieces").await;
        store
            .tamper(&format!(
                "CREATE TABLE output_pieces (text TEXT NOT NULL, first_byte BIGINT NOT NULL CHECK (first_byte < 5000000), \
                 first_line BIGINT NOT NULL, packed {bytes} NOT NULL, packing BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (text, first_byte))"
            ))
            .await;
        let receipt = outputs.keep(noise(3, 6 << 20), made_by("c")).await.expect("in memory");
        assert!(receipt.note.is_some_and(|note| note.contains("in memory only")));
        assert_eq!(outputs.read(&receipt.id).await.expect("read").len(), 6 << 20);
        assert_eq!(store.number("SELECT count(*) FROM output_pieces").await, 0);
        assert_eq!(store.number(TEXTS).await, 1);
    }
}

#[tokio::test]
async fn a_text_that_is_used_again_is_young_again() {
    for store in each().await {
        let outputs = store
            .outputs("/w", OutputRetention { age: Duration::ZERO, ..OutputRetention::default() });
        let first = keep(&outputs, "the same").await;
        store.tamper("UPDATE output_texts SET kept_ms = kept_ms - 3700000").await;
        let second = keep(&outputs, "the same").await;
        assert!(outputs.read(&first).await.is_ok() && outputs.read(&second).await.is_ok());
        assert_eq!(store.number(TEXTS).await, 1);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_written_keeps_texts_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("no-folder");
    std::fs::write(&file, "x").expect("written");
    let location = || StoreLocation::new(StoreAddress::Sqlite(file.join("haft.db")));
    let outputs = StoreOutputs::new(location(), folder.path(), OutputRetention::default());
    let receipt = outputs.keep("text".into(), made_by("c")).await.expect("kept in memory");
    let note = receipt.note.expect("it is reported");
    assert!(note.starts_with("the output is kept in memory only, until haft exits: "), "{note}");
    assert_eq!(&*outputs.read(&receipt.id).await.expect("from memory"), "text");
    assert_eq!(outputs.find(&receipt.id).await.expect("from memory").lines, 1);
    let brief =
        StoreOutputs::new(location(), folder.path(), OutputRetention::default()).without_memory();
    let error = brief.keep("text".into(), made_by("c")).await.expect_err("nowhere");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn an_output_beyond_the_quota_stays_in_memory() {
    for store in each().await {
        let outputs =
            store.outputs("/w", OutputRetention { bytes: 1000, ..OutputRetention::default() });
        let receipt = outputs.keep("x".repeat(1001), made_by("c")).await.expect("in memory");
        assert!(receipt.note.expect("announced").contains("exceeds the quota of 1000 bytes"));
        assert_eq!(outputs.read(&receipt.id).await.expect("read").len(), 1001);
    }
}

#[tokio::test]
async fn a_damaged_piece_is_reported() {
    for store in each().await {
        let outputs = store.outputs("/w", OutputRetention::default());
        let id = keep(&outputs, "text").await;
        let nonsense = match &store.address {
            StoreAddress::Sqlite(_) => "x'ffff'",
            StoreAddress::Postgres(_) => "'\\xffff'",
        };
        store.tamper(&format!("UPDATE output_pieces SET packed = {nonsense}")).await;
        let error = outputs.read(&id).await.expect_err("nonsense");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains(&id) && error.next_step().contains("haft store check"));
        store.tamper("DELETE FROM output_pieces").await;
        let error = outputs.read(&id).await.expect_err("missing");
        assert!(error.message().contains("is missing"), "{error}");
    }
}

/// A piece in the format before migration 5: `haft` in 11000 lines, deflated.
const DEFLATED: &str = "\
    edd6b10d00200cc4c09e2d691003647f650feb1a0640f1e9ff7d733cfec01dc8000524242109494842129290842424615a42894b5ce212\
    377648484212929084242421094948c2be843ad7b9ce756ef190908424242109494842129290847d0975ae739debdce221210949484212\
    92908424242109fb12ea5ce73ad7b9c54342129290842424210949484212f625d4b9ce75ae738b8784242421094948421292908424ec4b\
    a8739deb5ce7160f09494842129290842424210949d89750e73ad7b9ce2d1e12929084242421094948421292b02fa1ce75ae739d5b3c24\
    242109494842129290842424615f429deb5ce73ab77848484212929084242421094948c2be843ad7b9ce756ef190908424242109494842\
    129290847d0975ae739debdce22121094948421292908424242109fb12ea5ce73ad7b9c54342129290842424210949484212f625d4b9ce\
    75ae738b8784210917";

#[tokio::test]
async fn outputs_of_an_earlier_haft_are_migrated_and_read() {
    for store in each().await {
        let id = keep(&store.outputs("/w", OutputRetention::default()), "new").await;
        store.make_older(4).await;
        for earlier in [
            "INSERT INTO output_texts VALUES ('old', '/w', 'x', 54999, 11000, 339, 1, 1)",
            "INSERT INTO outputs VALUES ('out_old', 'old', '/w', 's', 'c', 'bash', 1)",
        ] {
            store.tamper(earlier).await;
        }
        let packed = match &store.address {
            StoreAddress::Sqlite(_) => format!("x'{DEFLATED}'"),
            StoreAddress::Postgres(_) => format!("'\\x{DEFLATED}'"),
        };
        store.tamper(&format!("INSERT INTO output_pieces VALUES ('old', 0, 1, {packed})")).await;
        store.tamper("DELETE FROM output_pieces WHERE text <> 'old'").await;
        let outputs = store.outputs("/w", OutputRetention::default());
        let old = outputs.read("out_old").await.expect("it can be read");
        assert_eq!(*old, *"haft\n".repeat(11_000).trim_end());
        assert!(outputs.read(&id).await.is_err(), "its piece was taken away above");
        let piece = outputs.piece("out_old", OutputPosition::Line(9_000)).await.expect("read");
        assert_eq!((piece.first_byte, piece.first_line), (0, 1));
    }
}
