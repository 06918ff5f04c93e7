//! Cost of storing, reading and searching a long output, compared with the same text in a plain
//! file: time, and memory beyond the text itself. A separate process reads, which never has the
//! whole text, so that its memory can be measured.

use std::{
    fs,
    io::Read,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use haft_core::{OutputPosition, OutputSource, Outputs};
use haft_store::{OutputRetention, StoreAddress, StoreLocation, StoreOutputs};

const READ: &str = "--read";
const TIMES: usize = 21;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|it| it == READ) {
        return runtime.block_on(read(Path::new(&arguments[at + 1]), &arguments[at + 2]));
    }
    for megabytes in [1, 100] {
        runtime.block_on(keep(megabytes));
    }
}

fn outputs(folder: &Path) -> StoreOutputs {
    let location = StoreLocation::new(StoreAddress::Sqlite(folder.join("haft.db")));
    StoreOutputs::new(location, Path::new("/w"), OutputRetention::default()).without_memory()
}

/// Lines like a server log.
fn log(megabytes: usize) -> String {
    let mut text = String::with_capacity((megabytes << 20) + 200);
    for number in 1_u64.. {
        if text.len() >= megabytes << 20 {
            break;
        }
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str(&format!(
            "{number} 2026-11-16 INFO request {mixed:016x} took {} ms\n",
            mixed % 97
        ));
    }
    text
}

#[expect(clippy::print_stdout, reason = "a bench prints its results")]
async fn keep(megabytes: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = outputs(folder.path());
    outputs.keep("first".into(), OutputSource::default()).await.expect("kept");
    let text = log(megabytes);
    let began = Instant::now();
    fs::write(folder.path().join("plain.txt"), &text).expect("written");
    let plainly = began.elapsed();
    let before = status("VmRSS:");
    let max_delay = Arc::new(Mutex::new(Duration::ZERO));
    let watch = tokio::spawn(watch(max_delay.clone()));
    let began = Instant::now();
    let id = outputs.keep(text, OutputSource::default()).await.expect("kept").id;
    let kept = began.elapsed();
    watch.abort();
    println!(
        "{megabytes} MB: kept in {kept:.1?} (a plain file in {plainly:.1?}), others waited {:.1?} at most, {} MB of store, {} MB \
         of memory beyond the text",
        *max_delay.lock(),
        size(&folder.path().join("haft.db")) >> 20,
        status("VmHWM:").saturating_sub(before) >> 20
    );
    drop(outputs);
    let this = std::env::current_exe().expect("this program");
    let read = Command::new(this).arg(READ).arg(folder.path()).arg(id).status();
    assert!(read.is_ok_and(|status| status.success()), "it reads");
}

#[expect(clippy::print_stdout, reason = "a bench prints its results")]
async fn read(folder: &Path, id: &str) {
    let outputs = outputs(folder);
    let kept = outputs.find(id).await.expect("there");
    let by_line = |times: u64| OutputPosition::Line(kept.lines / 2 + times * 100);
    let mut first_times = Vec::new();
    for at in [OutputPosition::Byte(kept.bytes / 2), by_line(9)] {
        let began = Instant::now();
        outputs.piece(id, at).await.expect("read");
        first_times.push(began.elapsed());
    }
    let mut all = Vec::new();
    for number in 0..TIMES as u64 {
        let began = Instant::now();
        outputs.piece(id, by_line(number)).await.expect("read");
        all.push(began.elapsed());
    }
    all.sort_unstable();
    println!(
        "    a piece from the middle: {:.1?} by byte and {:.1?} by line the first time, {:.1?} later",
        first_times[0],
        first_times[1],
        all[TIMES / 2]
    );
    let needle = format!("\n{} 2026", kept.lines);
    let (mut scans, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        scans.push(scan(&outputs, id, kept.bytes, &needle).await);
        plain.push(scan_plain(&folder.join("plain.txt"), &needle));
    }
    scans.sort_unstable();
    plain.sort_unstable();
    let (scan, plain) = (scans[2], plain[2]);
    println!(
        "    all of it, searched: {scan:.1?}, the plain file {plain:.1?}, {:.1} times as long; {} MB of memory at most",
        scan.as_secs_f64() / plain.as_secs_f64(),
        status("VmHWM:") >> 20
    );
}

async fn scan(outputs: &StoreOutputs, id: &str, bytes: u64, needle: &str) -> Duration {
    let began = Instant::now();
    let finder = memchr::memmem::Finder::new(needle);
    let (mut at, mut found) = (0, 0);
    while at < bytes {
        let piece = outputs.piece(id, OutputPosition::Byte(at)).await.expect("read");
        found += finder.find_iter(piece.text.as_bytes()).count();
        at = piece.end();
    }
    assert_eq!(found, 1);
    began.elapsed()
}

fn scan_plain(path: &Path, needle: &str) -> Duration {
    let began = Instant::now();
    let finder = memchr::memmem::Finder::new(needle);
    let mut file = fs::File::open(path).expect("there");
    let (mut buffer, mut found) = (vec![0; 256 << 10], 0);
    loop {
        let length = file.read(&mut buffer).expect("read");
        if length == 0 {
            break;
        }
        found += finder.find_iter(&buffer[..length]).count();
    }
    assert!(found <= 1, "it may span two buffers");
    began.elapsed()
}

/// Measures the worst delay of another task in the same runtime.
async fn watch(max_delay: Arc<Mutex<Duration>>) {
    loop {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let late = began.elapsed().saturating_sub(Duration::from_millis(1));
        let mut max_delay = max_delay.lock();
        *max_delay = max_delay.max(late);
    }
}

fn size(path: &Path) -> u64 {
    let of = |end: &str| {
        let name = format!("{}{end}", path.display());
        fs::metadata(name).map_or(0, |metadata| metadata.len())
    };
    of("") + of("-wal")
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() << 10
}
