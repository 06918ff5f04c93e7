//! Notices what other processes commit to the file: by its change counter, asked for every few milliseconds on a
//! connection of its own, and less often the longer nothing happens. There is no other way to be told that works on every
//! file system.

use std::{
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{Sqlite, opening};
use crate::areas::feed::Post;

/// How long ago something happened, and how long to wait then. Half the wait is what an event is late on average, and 10 ms
/// are promised even when nothing has happened for an hour.
const WAITS: [(Duration, Duration); 2] = [
    (Duration::from_secs(2), Duration::from_millis(2)),
    (Duration::from_secs(30), Duration::from_millis(5)),
];
const LONGEST_WAIT: Duration = Duration::from_millis(10);

impl Sqlite {
    /// Looks out for other processes until nobody listens.
    pub(crate) fn watch(&self, post: Post) {
        let Ok(connection) = opening::connect(&self.path) else { return };
        let thread = thread::Builder::new().name("haft-events".to_owned());
        // Without a thread the post is left, and those who listen know.
        let _ = thread.spawn(move || keep_watch(&connection, post));
    }
}

fn keep_watch(connection: &Connection, mut post: Post) {
    let mut known = None;
    let mut last = Instant::now();
    while !post.may_go() {
        let version = version(connection);
        // What cannot be read is looked at by who listens, and told there.
        if version.is_none() || version != known {
            known = version;
            last = Instant::now();
            post.hub.ring();
        }
        let quiet = last.elapsed();
        let wait = WAITS.iter().find(|(until, _)| quiet < *until).map(|(_, wait)| *wait);
        // A tenth of a second is soon enough to try again what failed.
        let wait = if version.is_none() { LONGEST_WAIT * 10 } else { wait.unwrap_or(LONGEST_WAIT) };
        thread::sleep(wait);
    }
}

fn version(connection: &Connection) -> Option<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version").ok()?;
    statement.query_row([], |row| row.get(0)).ok()
}
