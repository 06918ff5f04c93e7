//! Maps errors of a database to messages with a next step. Decided by the server's codes, never by
//! its texts.

use deadpool_postgres::PoolError;
use haft_core::ToolError;
use tokio_postgres::error::SqlState;

/// Maps the errors of one store.
pub(super) struct PostgresErrors<'a>(pub(super) &'a str);

impl PostgresErrors<'_> {
    pub(super) fn of(&self, error: tokio_postgres::Error) -> ToolError {
        let mapped = match error.as_db_error() {
            None => self.out_of_reach(&with_causes(&error)),
            Some(mapped) if is_disconnected(&error) => self.out_of_reach(mapped.message()),
            Some(mapped) => match *mapped.code() {
                SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => self.busy(),
                SqlState::UNIQUE_VIOLATION => self
                    .unavailable(&format!(
                        "already holds a row where a new one belongs: {}",
                        mapped.message()
                    ))
                    .hint("check the ledger with `haft ledger verify`"),
                SqlState::DISK_FULL => self
                    .unavailable("cannot be written: the disk is full")
                    .hint("free space on the server, or use another store with --store"),
                _ => self
                    .unavailable(&format!(
                        "reported an error: {} ({})",
                        mapped.message(),
                        mapped.code().code()
                    ))
                    .hint("check that the user may write there, or use another store with --store"),
            },
        };
        mapped.caused_by(error)
    }

    pub(super) fn of_pool(&self, error: PoolError) -> ToolError {
        match error {
            PoolError::Backend(error) => self.of(error),
            PoolError::Timeout(_) => self.not_responding(),
            other => self.out_of_reach(&other.to_string()),
        }
    }

    pub(super) fn not_responding(&self) -> ToolError {
        self.out_of_reach("the server does not respond")
    }

    fn busy(&self) -> ToolError {
        self.unavailable("is busy: another process holds a lock").hint("retry")
    }

    fn out_of_reach(&self, why: &str) -> ToolError {
        self.unavailable(&format!("cannot be reached: {why}"))
            .hint("check that the server runs and the address is right, or use another store with --store")
    }

    fn unavailable(&self, what: &str) -> ToolError {
        ToolError::unavailable(format!("the store {} {what}", self.0))
    }
}

/// Returns true if the server has closed the connection or accepts none yet.
pub(super) fn is_disconnected(error: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.is_closed() || error.code().is_some_and(|code| codes.contains(code))
}

/// Joins the messages of the causes: the library's own message says only that something failed.
fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut with_causes = error.to_string();
    let mut below = std::error::Error::source(error);
    while let Some(cause) = below {
        with_causes = format!("{with_causes}: {cause}");
        below = cause.source();
    }
    with_causes
}
