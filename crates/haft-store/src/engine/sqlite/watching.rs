//! Detects commits of other processes to the file, by reading SQLite's change counter every few
//! milliseconds on a separate connection, less often the longer nothing happens. No other
//! notification works on every file system.

use std::{
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{Sqlite, opening};
use crate::areas::feed::WatcherGuard;

/// Time since the last commit, and the wait that follows from it. An event is late by half the wait
/// on average, and haft promises 10 ms even after an hour without commits.
const WAITS: [(Duration, Duration); 2] = [
    (Duration::from_secs(2), Duration::from_millis(2)),
    (Duration::from_secs(30), Duration::from_millis(5)),
];
const MAX_WAIT: Duration = Duration::from_millis(10);

impl Sqlite {
    /// Watches for other processes until the last subscriber is gone.
    pub(crate) fn watch(&self, guard: WatcherGuard) {
        let Ok(connection) = opening::connect(&self.path) else { return };
        let thread = thread::Builder::new().name("haft-events".to_owned());
        // Without a thread the registration is dropped, and subscribers notice that.
        let _ = thread.spawn(move || keep_watch(&connection, guard));
    }
}

fn keep_watch(connection: &Connection, mut guard: WatcherGuard) {
    let mut known = None;
    let mut last = Instant::now();
    while !guard.end_if_unused() {
        let version = version(connection);
        // A failed read wakes the subscribers, which then report the error.
        if version.is_none() || version != known {
            known = version;
            last = Instant::now();
            guard.hub.notify();
        }
        let quiet = last.elapsed();
        let wait = WAITS.iter().find(|(until, _)| quiet < *until).map(|(_, wait)| *wait);
        // Retry a failed read after a tenth of a second.
        let wait = if version.is_none() { MAX_WAIT * 10 } else { wait.unwrap_or(MAX_WAIT) };
        thread::sleep(wait);
    }
}

fn version(connection: &Connection) -> Option<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version").ok()?;
    statement.query_row([], |row| row.get(0)).ok()
}
