//! Starts a PostgreSQL server for the tests, with its own data, on a free port. It is removed after
//! the tests.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::shell;

/// The variable from which the tests read the URL.
pub(crate) const VARIABLE: &str = "HAFT_TEST_POSTGRES";
/// Debian installs each version in its own folder and puts none of them in PATH.
const VERSIONS: &str = "/usr/lib/postgresql";
/// It usually starts in a second; a busy machine takes longer.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. Dropping it stops it.
pub(crate) struct TestServer {
    child: Child,
    data: PathBuf,
    pub(crate) url: String,
}

impl TestServer {
    /// Starts a server.
    pub(crate) fn start() -> Result<Self> {
        let programs = programs().context("PostgreSQL is not installed")?;
        let owner = owner()?;
        let data = create_data_dir(owner)?;
        let initdb = programs.join("initdb");
        let mut made = owned(Command::new(initdb), owner);
        made.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]);
        made.args(["--no-sync", "-D"]).arg(&data).stdout(Stdio::null());
        if !made.status().context("cannot start initdb")?.success() {
            bail!("initdb failed in {}", data.display());
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = owned(Command::new(programs.join("postgres")), owner);
        server.arg("-D").arg(&data).args(["-c", "listen_addresses=127.0.0.1"]);
        server.args(["-c", "unix_socket_directories=", "-c", &format!("port={port}")]);
        let log = fs::File::create(data.with_extension("log"))?;
        server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = server.spawn().context("cannot start postgres")?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let server = Self { child, data, url };
        server.wait(port)?;
        Ok(server)
    }

    fn wait(&self, port: u16) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > START_TIMEOUT {
                let log = self.data.with_extension("log");
                bail!("PostgreSQL does not listen on port {port}; see {}", log.display());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // SIGINT stops it quickly and in order; its data is not needed.
        let _ = shell::run(&["kill", "-INT", &self.child.id().to_string()]);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
        let _ = fs::remove_file(self.data.with_extension("log"));
    }
}

/// Returns the programs of the newest installed version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest =
        versions.filter(|path| path.join("bin/initdb").is_file()).max_by_key(|it| number(it));
    newest.map(|path| path.join("bin"))
}

/// Returns the user to run as. PostgreSQL refuses to run as root; then it runs as its package's
/// user.
fn owner() -> Result<Option<(u32, u32)>> {
    let id = |words: &[&str]| -> Result<u32> { Ok(shell::capture(words)?.trim().parse()?) };
    if id(&["id", "-u"])? != 0 {
        return Ok(None);
    }
    Ok(Some((id(&["id", "-u", "postgres"])?, id(&["id", "-g", "postgres"])?)))
}

fn owned(mut command: Command, owner: Option<(u32, u32)>) -> Command {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}

fn create_data_dir(owner: Option<(u32, u32)>) -> Result<PathBuf> {
    // Not below the project: the server's user may not be allowed to enter the folders above it.
    let data = Path::new("/tmp").join(format!("haft-postgres-{}", std::process::id()));
    fs::create_dir(&data)?;
    if let Some((user, group)) = owner {
        std::os::unix::fs::chown(&data, Some(user), Some(group))?;
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_and_leaves_nothing_behind() {
        // Where it is not installed, `setup` has reported it, and in CI that was a failure.
        let Some(_) = programs() else { return assert!(TestServer::start().is_err()) };
        let server = TestServer::start().expect("it starts");
        let (data, url) = (server.data.clone(), server.url.clone());
        assert!(url.starts_with("postgres://postgres@127.0.0.1:"), "{url}");
        assert!(data.join("PG_VERSION").is_file());
        drop(server);
        assert!(!data.exists());
    }
}
