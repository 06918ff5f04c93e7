//! A separate database for each test on the PostgreSQL that `cargo xtask test` starts, accessed
//! with psql.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// `None` without a server; CI has one.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server()?;
        let name =
            format!("binary_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ask(&server, &format!("DROP DATABASE IF EXISTS {name}"));
        ask(&server, &format!("CREATE DATABASE {name}"));
        Some(Self { server, name })
    }

    pub(crate) fn url(&self) -> String {
        let (before, _) = self.server.rsplit_once('/').expect("an address of a database");
        format!("{before}/{}", self.name)
    }

    /// Returns the result of a query, one row a line.
    pub(crate) fn ask(&self, sql: &str) -> String {
        ask(&self.url(), sql)
    }

    /// Starts psql, which exits when a COPY into a table starts.
    pub(crate) fn wait_for_copy(&self) -> Child {
        let name = &self.name;
        let sql = format!(
            "DO $$ BEGIN LOOP EXIT WHEN EXISTS (SELECT 1 FROM pg_stat_activity \
             WHERE datname = '{name}' AND query LIKE 'COPY%'); PERFORM pg_stat_clear_snapshot(); \
             PERFORM pg_sleep(0.002); END LOOP; END $$"
        );
        let mut psql = psql(&self.server, &sql);
        psql.spawn().expect("psql runs")
    }
}

#[expect(clippy::disallowed_methods, reason = "the one door of these tests to the environment")]
fn server() -> Option<String> {
    let server = std::env::var("HAFT_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(server.is_some() || !is_ci, "in CI there has to be a PostgreSQL");
    server
}

fn psql(url: &str, sql: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("it is installed");
    let programs = versions.filter_map(|it| Some(it.ok()?.path().join("bin/psql")));
    let program = programs.filter(|path: &PathBuf| path.is_file()).max();
    let mut psql = Command::new(program.expect("psql is beside the server"));
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url]);
    psql.stdin(Stdio::null()).stdout(Stdio::piped());
    psql
}

fn ask(url: &str, sql: &str) -> String {
    let answer = psql(url, sql).output().expect("psql runs");
    assert!(answer.status.success(), "{sql}");
    String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
}
