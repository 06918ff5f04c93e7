//! What goes wrong with a database, in words that say what to do. Decided by the server's codes, never by its words.

use deadpool_postgres::PoolError;
use haft_core::ToolError;
use tokio_postgres::error::SqlState;

/// Failures of one store.
pub(super) struct Faults<'a>(pub(super) &'a str);

impl Faults<'_> {
    pub(super) fn of(&self, error: tokio_postgres::Error) -> ToolError {
        let told = match error.as_db_error() {
            None => self.out_of_reach(&words(&error)),
            Some(told) if is_cut(&error) => self.out_of_reach(told.message()),
            Some(told) => match *told.code() {
                SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => self.busy(),
                SqlState::UNIQUE_VIOLATION => self
                    .unavailable(&format!(
                        "holds something where a new row belongs: {}",
                        told.message()
                    ))
                    .hint("see what was changed with `haft ledger verify`"),
                SqlState::DISK_FULL => self
                    .unavailable("cannot be written: the disk is full")
                    .hint("make room on the server, or use another store with --store"),
                _ => self
                    .unavailable(&format!("refuses: {} ({})", told.message(), told.code().code()))
                    .hint(
                        "see whether the user may write there, or use another store with --store",
                    ),
            },
        };
        told.caused_by(error)
    }

    pub(super) fn of_pool(&self, error: PoolError) -> ToolError {
        match error {
            PoolError::Backend(error) => self.of(error),
            PoolError::Timeout(_) => self.silent(),
            other => self.out_of_reach(&other.to_string()),
        }
    }

    pub(super) fn silent(&self) -> ToolError {
        self.out_of_reach("the server does not answer")
    }

    fn busy(&self) -> ToolError {
        self.unavailable("is busy: another process keeps what is needed").hint("call again")
    }

    fn out_of_reach(&self, why: &str) -> ToolError {
        self.unavailable(&format!("is out of reach: {why}"))
            .hint("see whether the server runs and the address is right, or use another store with --store")
    }

    fn unavailable(&self, what: &str) -> ToolError {
        ToolError::unavailable(format!("the store {} {what}", self.0))
    }
}

/// Whether the server has ended the connection, or is not ready for any.
pub(super) fn is_cut(error: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.is_closed() || error.code().is_some_and(|code| codes.contains(code))
}

/// The library says only that something failed; what it was is below.
fn words(error: &tokio_postgres::Error) -> String {
    let mut words = error.to_string();
    let mut below = std::error::Error::source(error);
    while let Some(cause) = below {
        words = format!("{words}: {cause}");
        below = cause.source();
    }
    words
}
