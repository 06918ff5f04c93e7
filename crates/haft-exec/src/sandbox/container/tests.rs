//! Tests the supervisor on this machine, in every shell that an image may have: it needs nothing of
//! a container. And one launch in a container, ended only from inside: this machine's process table
//! would hide that the supervisor is not asked.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use haft_core::commands::{Confinement, Launch, Program, Stdin, Streams};

use super::{Container, ContainerSettings, engine::ended_within};
use crate::{
    Workspace,
    processes::{
        backend::{LaunchBackend, LaunchContext},
        environment::MARK,
    },
};

const SCRIPT: &str = include_str!("supervisor.sh");

struct Supervisor {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Supervisor {
    fn new(shell: &[&str]) -> Self {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).args(["-c", SCRIPT, "sh", "1000"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        own_session(&mut command);
        let mut child = command.spawn().expect("a shell");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut supervisor = Self { child, input, output };
        assert_eq!(supervisor.receive(), "0 ready", "{shell:?}");
        supervisor
    }

    fn receive(&mut self) -> String {
        self.output.next().expect("it speaks").expect("text")
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input.as_mut().expect("open"), "1 {question}").expect("it listens");
        self.receive().strip_prefix("1 ").expect("the answer to this question").to_owned()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.input = None;
        // Its timer for the maximum age ends with a container; here it must be killed.
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = self.child.wait();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// A separate session, as in a container: processes of the supervisor's session are its own.
fn own_session(command: &mut Command) {
    let apart = || rustix::process::setsid().map(drop).map_err(Into::into);
    #[expect(unsafe_code, reason = "only pre_exec runs code between fork and exec")]
    // SAFETY: one system call, nothing is allocated.
    unsafe {
        command.pre_exec(apart);
    }
}

/// Starts three processes with a mark: one has cleared it, is a descendant of another, and ignores
/// a request to end. Returns its id.
fn marked_processes(mark: &str) -> (Child, String) {
    let stubborn = "trap '' TERM; echo $$; exec sleep 1000";
    let script = format!("sleep 1000 & env -i sh -c '{}' & wait", stubborn.replace('\'', r"'\''"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("HAFT_PROCESS", mark).env("A", "a\nb").stdout(Stdio::piped());
    own_session(&mut command);
    let mut child = command.spawn().expect("a shell");
    let mut number = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut number).expect("it speaks");
    (child, number.trim().to_owned())
}

/// Returns true when it runs: a process that is not reaped stays in the table.
fn runs(number: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{number}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[test]
fn it_counts_and_ends_those_with_a_mark_in_every_shell() {
    for (at, shell) in [&["dash"][..], &["bash"], &["busybox", "sh"]].iter().enumerate() {
        if Command::new(shell[0]).arg("-c").arg("true").output().is_err() {
            println!("skipped: no {}", shell[0]);
            continue;
        }
        let mark = format!("{}-supervisor-{at}-p1", std::process::id());
        let (mut first, cleared) = marked_processes(&format!("{mark}."));
        let (mut other, also_cleared) = marked_processes(&format!("{mark}0."));
        let mut supervisor = Supervisor::new(shell);
        let left =
            |supervisor: &mut Supervisor, end: &str| supervisor.ask(&format!("left {mark}{end}"));
        assert_eq!(
            [left(&mut supervisor, "."), left(&mut supervisor, "0.")],
            ["3", "3"],
            "{shell:?}"
        );
        assert_eq!(supervisor.ask(&format!("end {mark}.")), "0");
        assert_eq!(
            [left(&mut supervisor, "."), left(&mut supervisor, "0.")],
            ["0", "3"],
            "{shell:?}"
        );
        assert!(!runs(&cleared) && runs(&also_cleared));
        assert_eq!(supervisor.ask(&format!("ask {mark}0.")), "yes");
        other.wait().expect("it ends");
        assert!(runs(&also_cleared), "it ends only when it must");
        assert_eq!(supervisor.ask(&format!("end {mark}0.")), "0");
        assert!(!runs(&also_cleared), "{shell:?}: its parent was gone, but it was known");
        first.wait().expect("it ended");
    }
}

#[test]
fn it_knows_programs_ports_and_a_home_in_every_shell() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("bound").port();
    for shell in [&["dash"][..], &["bash"], &["busybox", "sh"]] {
        if Command::new(shell[0]).arg("-c").arg("true").output().is_err() {
            println!("skipped: no {}", shell[0]);
            continue;
        }
        let mut supervisor = Supervisor::new(shell);
        assert!(supervisor.ask("find sh").ends_with("/sh"));
        assert_eq!(supervisor.ask("find no-such-program"), "");
        assert_eq!(supervisor.ask("find ../sh"), "");
        assert_eq!(supervisor.ask("runs /bin/sh"), "yes");
        assert_eq!(supervisor.ask("runs /bin"), "no");
        assert_eq!(supervisor.ask(&format!("listens {port:04X}")), "yes");
        assert_eq!(supervisor.ask("listens 0000"), "no");
        assert!(supervisor.ask("home").starts_with('/'));
        assert_eq!(supervisor.ask("nonsense *"), "no");
        assert_eq!(supervisor.ask("ping"), "yes");
    }
}

fn context(folder: &Path, mark: &str) -> LaunchContext {
    let workspace = Arc::new(Workspace::open(folder).expect("a directory"));
    let (directory, path) = workspace.directory(Path::new(".")).expect("there");
    let environment = vec![(MARK.into(), mark.into())];
    LaunchContext {
        workspace,
        directory,
        path,
        environment,
        closed: Arc::default(),
        private: Arc::default(),
        shown: Arc::default(),
    }
}

fn launch(text: &str) -> Launch {
    Launch {
        session: "one".to_owned(),
        program: Program::Shell(text.to_owned()),
        directory: PathBuf::from("."),
        environment: Vec::new(),
        secrets: Vec::new(),
        confinement: Confinement { network: false, writes: true },
        input: Stdin::Closed,
        streams: Streams::Joined,
        grant: haft_core::files::FileGrant::none(),
    }
}

/// Returns the exit code, if it has ended.
fn code(child: &mut Child) -> Option<i32> {
    if !ended_within(child, Duration::from_secs(60)) {
        child.kill().expect("it runs");
        return None;
    }
    child.wait().expect("it ended").code()
}

#[test]
fn a_launch_is_counted_and_ended_from_inside_alone() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/containers/podman");
    // The tests of containers decide whether that is a failure.
    let Ok(engine) = engine.canonicalize() else { return };
    let settings = ContainerSettings {
        engine: Some(engine.display().to_string()),
        image: "haft-test".to_owned(),
        ..ContainerSettings::default()
    };
    let backend = Container::new(
        Arc::new(settings),
        &vec![("PATH".into(), "/usr/bin:/bin".into())],
        Path::new("/var/tmp"),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let start = |mark: &str| {
        let text = "trap 'echo asked > asked; exit 7' TERM; setsid sleep 1000 & echo up; wait";
        let recipe =
            backend.recipe(&launch(text), &context(folder.path(), mark)).expect("a container");
        let mut command = Command::new(&recipe.command[0]);
        command.args(&recipe.command[1..]).env_clear().envs(recipe.environment);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the engine");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut String::new()).expect("it speaks");
        (child, recipe.isolated.expect("it is inside"))
    };
    let (mut first, inside_first) = start("1-x-p1.");
    let (mut second, inside_second) = start("1-x-p10.");
    assert_eq!((inside_first.left(), inside_second.left()), (Some(2), Some(2)));
    inside_first.end();
    assert_eq!(code(&mut first), Some(137));
    assert_eq!((inside_first.left(), inside_second.left()), (Some(0), Some(2)));
    inside_second.ask_to_end();
    assert_eq!(code(&mut second), Some(7), "it could tidy up");
    assert!(folder.path().join("asked").exists());
    inside_second.end();
    assert_eq!(inside_second.left(), Some(0));
    backend.forget("one");
    assert_eq!(inside_second.left(), Some(0), "what is over stays so");
}
