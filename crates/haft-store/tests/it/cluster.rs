//! A separate PostgreSQL server that a test may stop and start. The server that all tests share
//! must keep running.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const VERSIONS: &str = "/usr/lib/postgresql";

pub(crate) struct Cluster {
    programs: PathBuf,
    /// The server refuses to run as root; then it runs as the user that its package created.
    owner: Option<(u32, u32)>,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Starts a server. `None` where PostgreSQL is not installed; CI has it.
    pub(crate) fn start() -> Option<Self> {
        let programs = programs()?;
        let owner = owner();
        // In /tmp: the server's user may lack access to the directories above the project.
        let folder = tempfile::Builder::new().prefix("haft-cluster-").tempdir_in("/tmp");
        let folder = folder.expect("a folder").keep();
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group)).expect("it is ours");
        }
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let cluster = Self { programs, owner, folder, port };
        let data = cluster.folder.join("data");
        let mut made = cluster.command("initdb");
        made.args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "-D",
        ]);
        assert!(made.arg(&data).status().expect("it runs").success(), "initdb");
        cluster.control(&["start"]);
        Some(cluster)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns a directory beside the data. Creates it if needed.
    pub(crate) fn folder_for(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    /// Gives such a directory to the server's user.
    pub(crate) fn server_folder(&self, name: &str) -> PathBuf {
        let folder = self.folder_for(name);
        if let Some((user, group)) = self.owner {
            chown(&folder, Some(user), Some(group)).expect("it is ours");
        }
        folder
    }

    /// `fast` stops the server cleanly, `immediate` like a crash.
    pub(crate) fn restart(&self, how: &str) {
        self.control(&["-m", how, "restart"]);
    }

    fn control(&self, what: &[&str]) {
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c port={} -c fsync=off",
            self.port
        );
        let mut control = self.command("pg_ctl");
        control.arg("-D").arg(self.folder.join("data")).arg("-l").arg(self.folder.join("log"));
        control.args(["-t", "120", "-w", "-o", &options]).args(what);
        assert!(control.status().expect("it runs").success(), "pg_ctl {what:?}");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.arg("-D").arg(self.folder.join("data")).args(["-m", "immediate", "-w", "stop"]);
        let _ = stop.status();
        // Unmounts the small disk, if a test mounted one.
        let _ = Command::new("umount").arg("-l").arg(self.folder.join("small")).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest =
        versions.filter(|path| path.join("bin/initdb").is_file()).max_by_key(|it| number(it));
    newest.map(|path| path.join("bin"))
}

fn owner() -> Option<(u32, u32)> {
    let id = |words: &[&str]| {
        let output = Command::new("id").args(words).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().expect("a number")
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
