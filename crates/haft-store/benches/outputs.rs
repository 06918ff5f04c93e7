//! What keeping and reading a long output takes: time, and memory beyond the text itself.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{MadeBy, Outputs, Position};
use haft_store::{Address, OutputRetention, Place, StoreOutputs};

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    for megabytes in [1, 100] {
        runtime.block_on(measure(megabytes));
    }
}

#[expect(clippy::print_stdout, reason = "a bench tells what it measured")]
async fn measure(megabytes: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(Address::Sqlite(folder.path().join("haft.db")));
    let outputs = StoreOutputs::new(place, Path::new("/w"), OutputRetention::default());
    outputs.keep("first".into(), MadeBy::default()).await.expect("kept");
    let mut text = String::with_capacity((megabytes << 20) + 200);
    let mut number = 0_u64;
    while text.len() < megabytes << 20 {
        number += 1;
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str(&format!(
            "{number} 2026-11-16 INFO request {mixed:016x} took {} ms\n",
            mixed % 97
        ));
    }
    let (lines, before) = (number, resident());
    let began = Instant::now();
    let longest = Arc::new(std::sync::Mutex::new(Duration::ZERO));
    let watch = tokio::spawn(watch(longest.clone()));
    let id = outputs.keep(text, MadeBy::default()).await.expect("kept").id;
    let kept = began.elapsed();
    watch.abort();
    let stalled = *longest.lock().expect("no panic");
    let began = Instant::now();
    outputs.piece(&id, Position::Line(lines / 2)).await.expect("read");
    let read = began.elapsed();
    let peak = peak().saturating_sub(before);
    println!(
        "{megabytes} MB, {lines} lines: kept in {kept:?}, others waited {stalled:?} at most, a piece read in {read:?}, {} MB of store, {} MB of memory beyond the text",
        size(folder.path()) >> 20,
        peak >> 20
    );
}

/// How late another task of the same runtime comes at worst.
async fn watch(longest: Arc<std::sync::Mutex<Duration>>) {
    loop {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let late = began.elapsed().saturating_sub(Duration::from_millis(1));
        let mut longest = longest.lock().expect("no panic");
        *longest = longest.max(late);
    }
}

fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("a folder");
    files.map(|file| file.and_then(|file| file.metadata()).map_or(0, |it| it.len())).sum()
}

fn resident() -> u64 {
    status("VmRSS:")
}

fn peak() -> u64 {
    status("VmHWM:")
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() << 10
}
