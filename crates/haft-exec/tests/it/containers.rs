//! Real containers: their isolation, and that nothing of them is left. Once with podman
//! (`containers`), and once with Docker's command line, which talks to podman's service (`docker`).

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    ErrorKind, Shell, ToolError,
    commands::{
        Confinement, Executor, KillReason, Launch, Process, ProcessState, ProcessStatus, Program,
        Stream,
    },
};
use haft_exec::{ContainerSettings, ProcessSettings, Programs, Workspace};

use crate::{
    programs::{count, environment, over, said, shell, wait},
    test_workspace::{TestWorkspace, again, note, variable},
};

/// Longer than any of this takes; only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The engine and the image that `cargo xtask setup` creates. None where they are missing: then the
/// case is skipped, and in CI it fails.
pub(crate) fn settings() -> Option<ContainerSettings> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/containers");
    let Ok(engine) = tools.join(if is_docker() { "docker" } else { "podman" }).canonicalize()
    else {
        note("no container engine (`cargo xtask setup` makes one): this test is passed over");
        return None;
    };
    let engine = Some(engine.display().to_string());
    Some(ContainerSettings { engine, image: "haft-test".to_owned(), ..Default::default() })
}

fn is_docker() -> bool {
    module_path!().ends_with("docker")
}

pub(crate) fn process_settings() -> Option<ProcessSettings> {
    settings().map(|settings| ProcessSettings::Container(Arc::new(settings)))
}

/// A workspace, and the programs of one session in it.
struct ContainerTest {
    place: TestWorkspace,
    programs: Arc<Programs>,
    settings: ContainerSettings,
}

impl ContainerTest {
    fn new(settings: ContainerSettings) -> Self {
        Self::at(TestWorkspace::new(), settings)
    }

    fn at(place: TestWorkspace, settings: ContainerSettings) -> Self {
        let workspace = Workspace::open(&place.root).expect("a directory");
        Self::on(place, workspace, settings)
    }

    fn on(place: TestWorkspace, workspace: Workspace, settings: ContainerSettings) -> Self {
        let process_settings = ProcessSettings::Container(Arc::new(settings.clone()));
        let programs =
            Programs::new(process_settings, Arc::new(workspace), environment, &place.root);
        Self { place, programs: Arc::new(programs), settings }
    }

    fn launch(&self, text: &str, confinement: Confinement) -> Launch {
        let power = Shell::unchecked(self.programs.clone());
        Launch { confinement, ..power.launch(shell(text), Path::new(".")) }
    }

    fn start(&self, text: &str) -> Result<Arc<dyn Process>, ToolError> {
        let power = Shell::unchecked(self.programs.clone());
        power.start(self.launch(text, WITHOUT_NETWORK))
    }

    async fn run(&self, text: &str) -> (ProcessStatus, String) {
        self.run_with(text, WITHOUT_NETWORK).await
    }

    async fn run_with(&self, text: &str, confinement: Confinement) -> (ProcessStatus, String) {
        let power = Shell::unchecked(self.programs.clone());
        let process = power.start(self.launch(text, confinement)).expect("it starts");
        (over(&*process).await, said(&*process, Stream::Out))
    }

    fn engine(&self, words: &[&str]) -> String {
        let engine = self.settings.engine.as_deref().expect("named");
        let output = Command::new(engine).args(words).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the containers of this workspace.
    fn containers(&self) -> Vec<String> {
        let filter = format!("label=haft.workspace={}", self.place.root.display());
        let listed = self.engine(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"]);
        listed.lines().map(str::to_owned).collect()
    }

    fn gone(&self) {
        let begun = Instant::now();
        while !self.containers().is_empty() {
            assert!(begun.elapsed() < TIMEOUT, "{:?} are left", self.containers());
        }
    }
}

/// No network; the workspace can be changed.
const WITHOUT_NETWORK: Confinement = Confinement { network: false, writes: true };

#[tokio::test]
async fn a_container_has_few_rights_and_only_what_it_is_given() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let text = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'
touch /etc/x || echo read-only; touch /tmp/x && echo tmp; touch x && echo workspace; grep -c : /proc/net/dev
echo 1 > /proc/sys/kernel/ostype || echo no kernel; ls /workspace/..|tr '\\n' ' '; echo $HOME";
    let (status, text) = test.run(text).await;
    assert_eq!(status.exit_code, Some(0), "{text}");
    for line in [
        "CapEff:0000000000000000",
        "CapBnd:0000000000000000",
        "NoNewPrivs:1",
        "Seccomp:2",
        "read-only",
        "tmp",
        "workspace",
        "1",
        "no kernel",
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    assert!(text.ends_with("/root\n"), "{text}");
    assert!(test.place.root.join("x").exists());
}

#[tokio::test]
async fn only_launches_with_network_have_one() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let text = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\\n' ' '";
    assert_eq!(test.run(text).await.1, "lo ");
    let network = Confinement { network: true, writes: true };
    assert_eq!(test.run_with(text, network).await.1, "eth0 lo ");
    assert_eq!(test.run(text).await.1, "lo ", "and for no others");
    assert_eq!(test.containers().len(), 2, "one for each sort");
}

#[tokio::test]
async fn what_makes_others_run_something_stays_as_it_is() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    test.place.file(".git/hooks/pre-commit", "old");
    test.place.file(".git/config", "old");
    let text = "echo new > .git/hooks/pre-commit; echo new > .git/config; rm -f .git/config
mv .git other; mv .git/hooks more; echo new > .haft/config.toml; echo new > .git/index; echo new > file; true";
    test.run(text).await;
    for (file, expected) in
        [(".git/hooks/pre-commit", "old"), (".git/config", "old"), (".git/index", "new\n")]
    {
        let found = fs::read_to_string(test.place.root.join(file)).expect("there");
        assert_eq!(found, expected, "{file}");
    }
    assert!(!test.place.root.join(".haft/config.toml").exists());
    let reads = Confinement { network: false, writes: false };
    let (status, text) = test.run_with("cat file; echo x > file", reads).await;
    assert_ne!(status.exit_code, Some(0), "{text}");
    assert_eq!(fs::read_to_string(test.place.root.join("file")).expect("there"), "new\n");
}

#[tokio::test]
async fn what_takes_the_place_of_something_protected_is_protected_for_the_next_command() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let name = test.run("cat /proc/sys/kernel/hostname").await.1;
    assert_eq!(test.run("cat /proc/sys/kernel/hostname").await.1, name, "it stays warm");
    test.place.file(".git/config", "made");
    test.run("echo new > .git/config").await;
    assert_ne!(test.run("cat /proc/sys/kernel/hostname").await.1, name, "another container");
    let config = test.place.root.join(".git/config");
    assert_eq!(fs::read_to_string(&config).expect("there"), "made");
    // As `git config` does: the mount disappears with the old file.
    test.place.file(".git/config.lock", "replaced");
    let waiting = test.start("echo up; exec sleep 1000").expect("it starts");
    wait(&*waiting, |status| status.bytes > 0).await;
    fs::rename(test.place.root.join(".git/config.lock"), &config).expect("renamed");
    test.run("echo new > .git/config").await;
    assert_eq!(fs::read_to_string(&config).expect("there"), "replaced");
    assert_eq!(waiting.status().state, ProcessState::Running, "what runs in the old one runs on");
    assert_eq!(test.containers().len(), 2);
    waiting.kill(KillReason::OnRequest).await;
    test.run("true").await;
    assert_eq!(test.containers().len(), 1, "then the old one is not needed");
}

#[tokio::test]
async fn further_roots_are_there_by_their_names_and_protected_in_all_ways() {
    let Some(settings) = settings() else { return };
    let place = TestWorkspace::new();
    place.file("nested/.git/config", "old");
    fs::create_dir(place.outside.join("sub")).expect("new");
    let mut workspace = Workspace::open(&place.root).expect("a directory");
    workspace.add_root("docs", &place.outside).expect("a directory");
    workspace.add_root("nested", &place.root.join("nested")).expect("a directory");
    let test = ContainerTest::on(place, workspace, settings);
    let power = Shell::unchecked(test.programs.clone());
    let mut launch = power.launch(shell("pwd; cat ../secret"), Path::new("@docs/sub"));
    launch.confinement = WITHOUT_NETWORK;
    let process = power.start(launch).expect("it starts");
    over(&*process).await;
    assert_eq!(said(&*process, Stream::Out), "/roots/docs/sub\nthe secret outside");
    test.run("echo new > /workspace/nested/.git/config; echo new > /roots/nested/.git/config")
        .await;
    let config = test.place.root.join("nested/.git/config");
    assert_eq!(fs::read_to_string(config).expect("there"), "old");
}

#[tokio::test]
async fn it_runs_as_the_owner_of_the_workspace() {
    let Some(settings) = settings() else { return };
    let place = TestWorkspace::new();
    if chown(&place.root, Some(12_345), Some(23_456)).is_err() {
        note("only root can give files away: this test is passed over");
        return;
    }
    // No directory on the way may exclude other users.
    let base = place.root.parent().expect("not the top");
    fs::set_permissions(base, fs::Permissions::from_mode(0o755)).expect("ours");
    let test = ContainerTest::at(place, settings.clone());
    let (_, text) = test.run("echo $(id -u):$(id -g) $HOME; touch made").await;
    assert_eq!(text, "12345:23456 /tmp\n", "and has a home to write to");
    let made = fs::metadata(test.place.root.join("made")).expect("written");
    assert_eq!((made.uid(), made.gid()), (12_345, 23_456));
    let settings = ContainerSettings { user: Some("7:8".to_owned()), ..settings };
    assert_eq!(ContainerTest::new(settings).run("echo $(id -u):$(id -g)").await.1, "7:8\n");
}

#[tokio::test]
async fn a_memory_bomb_ends_alone() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(ContainerSettings { memory: "64m".to_owned(), ..settings });
    let kept = test.start("echo up; exec sleep 1000").expect("it starts");
    wait(&*kept, |status| status.bytes > 0).await;
    let (status, text) = test.run("perl -e '$x .= \"x\" x 1_000_000 while 1'").await;
    assert_eq!(status.exit_code, Some(137), "{text}");
    assert_eq!(test.run("echo alive").await.1, "alive\n");
    assert_eq!(kept.status().state, ProcessState::Running);
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ends_whole() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(ContainerSettings { pids: 60, ..settings });
    let word = format!("4720.{}", std::process::id());
    let text = format!("b() {{ sleep {word} & b | b & }}; b; echo up; sleep {word}");
    let process = test.start(&text).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    let begun = Instant::now();
    while count(&word) < 5 && begun.elapsed() < TIMEOUT {
        tokio::task::yield_now().await;
    }
    assert!(count(&word) < 70, "{}", count(&word));
    process.kill(KillReason::ByTimeout).await;
    assert_eq!((process.status().state, count(&word)), (ProcessState::KilledByTimeout, 0));
    assert_eq!(test.run("echo alive").await.1, "alive\n");
}

#[tokio::test]
async fn a_process_without_mark_ends_with_the_last_launch() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let word = format!("4721.{}", std::process::id());
    let escape = format!("env -i setsid sleep {word} </dev/null >/dev/null 2>&1 &");
    let (status, _) = test.run(&format!("({escape}); true")).await;
    assert_eq!((status.survivors, count(&word)), (0, 0));
}

#[tokio::test]
async fn a_session_has_its_own_container_and_takes_it_along() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let power = Shell::unchecked(test.programs.clone());
    for session in ["one", "two"] {
        let mut launch = power.launch(shell("touch /tmp/x; ls /tmp | wc -l"), Path::new("."));
        (launch.session, launch.confinement) = (session.to_owned(), WITHOUT_NETWORK);
        let process = power.start(launch).expect("it starts");
        over(&*process).await;
        assert_eq!(said(&*process, Stream::Out), "1\n");
    }
    assert_eq!(test.containers().len(), 2);
    test.programs.end_session("one");
    assert_eq!(test.containers().len(), 1);
    test.programs.end_session("two");
    assert!(test.containers().is_empty());
}

#[tokio::test]
async fn many_at_once_share_one_container() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let all: Vec<_> = (0..8).map(|_| test.start("echo one").expect("it starts")).collect();
    for process in &all {
        assert_eq!(over(&**process).await.exit_code, Some(0));
    }
    assert_eq!(test.containers().len(), 1);
}

#[tokio::test]
async fn removing_a_container_ends_its_commands_and_the_next_gets_another() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let process = test.start("echo up; exec sleep 1000").expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    test.engine(&["kill", &test.containers()[0]]);
    let status = over(&*process).await;
    let failure = process.failure().expect("it was not its own doing");
    assert_eq!(failure.kind(), ErrorKind::Unavailable, "{status:?}");
    assert!(said(&*process, Stream::Out).starts_with("up\n"), "what it said is kept");
    let (status, text) = test.run("echo again").await;
    assert_eq!((status.exit_code, text.as_str()), (Some(0), "again\n"));
}

#[tokio::test]
async fn a_program_that_fails_is_no_failure_of_its_container() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    for code in [1, 125, 126, 127, 137, 255] {
        let process = test.start(&format!("exit {code}")).expect("it starts");
        assert_eq!(over(&*process).await.exit_code, Some(code));
        assert!(process.failure().is_none(), "{code}");
    }
}

#[tokio::test]
async fn both_outputs_keep_their_order_when_they_are_joined() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let (_, text) = test.run("for i in $(seq 300); do echo $i; echo $i >&2; done").await;
    let expected: String = (1..=300).map(|i| format!("{i}\n{i}\n")).collect();
    assert!(text == expected, "mixed up");
}

#[tokio::test]
async fn a_container_ends_when_it_is_old() {
    let Some(settings) = settings() else { return };
    let test =
        ContainerTest::new(ContainerSettings { max_age: Duration::from_secs(2), ..settings });
    let process = test.start("exec sleep 1000").expect("it starts");
    let status = over(&*process).await;
    assert!(process.failure().is_some() && status.ms >= 1_000, "{status:?}");
    test.gone();
}

#[tokio::test]
async fn no_set_id_bit_is_left_behind() {
    let Some(settings) = settings() else { return };
    // Podman's service takes no profile from Docker's command line; Docker's own daemon does.
    if is_docker() {
        return assert!(settings.engine.is_some_and(|engine| engine.ends_with("docker")));
    }
    let test = ContainerTest::new(settings);
    let text = "touch f; chmod 6755 f; chmod u+s f; mkdir d; chmod g+s d; f=f g=g; \
                perl -e 'syscall(90, $f = \"f\", 04755); syscall(133, $g = \"g\", 0104755, 0); syscall(85, $g = \"h\", 04755)'; \
                chmod 750 f && echo plain";
    let (_, said) = test.run(text).await;
    assert!(said.contains("plain"), "{said}");
    for name in ["f", "d", "g", "h"] {
        let mode = fs::metadata(test.place.root.join(name)).map_or(0, |found| found.mode());
        assert_eq!(mode & 0o6000, 0, "{name}: {said}");
    }
}

#[tokio::test]
async fn sockets_that_were_there_are_out_of_reach_and_own_ones_are_not() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    let listener = std::os::unix::net::UnixListener::bind(test.place.root.join("db.sock"));
    let listener = listener.expect("bound");
    listener.set_nonblocking(true).expect("set");
    let connect = "use Socket; socket S, AF_UNIX, SOCK_STREAM, 0; connect(S, pack_sockaddr_un($p)) ? print \"in\" : print \"out\"";
    for path in ["db.sock", "/workspace/db.sock"] {
        let (_, said) = test.run(&format!("perl -e '$p = \"{path}\"; {connect}'")).await;
        assert_eq!(said, "out", "{path}");
    }
    let own = "use Socket; socket L, AF_UNIX, SOCK_STREAM, 0; bind L, pack_sockaddr_un(\"own.sock\"); listen L, 1; $p = \"own.sock\"";
    let (_, said) = test.run(&format!("perl -e '{own}; {connect}'")).await;
    assert_eq!(said, "in");
    assert!(listener.accept().is_err());
}

const KEEPER: &str = "HAFT_TEST_KEEPS_CONTAINER";

/// Another haft: starts a command and waits to be killed.
#[tokio::test]
async fn keeper() {
    let (Some(root), Some(settings)) = (variable(KEEPER), settings()) else { return };
    let test = ContainerTest::at(TestWorkspace::at(&root), settings);
    let ends = root.join("ends").exists();
    let text = "setsid sleep 4722 & echo up; exec sleep 4722";
    let process = test.start(text).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    println!("did");
    if ends {
        Programs::end_everything();
        println!("left {}", test.containers().len());
        return;
    }
    over(&*process).await;
}

fn keep(place: &TestWorkspace) -> (std::process::Child, impl Iterator<Item = String> + use<>) {
    let test = if is_docker() { "docker::keeper" } else { "containers::keeper" };
    let mut command = again(test, KEEPER, &place.root);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("did")), "it ended by itself");
    (child, lines)
}

#[test]
fn nothing_is_left_of_a_haft_that_was_killed() {
    let Some(settings) = settings() else { return };
    let place = TestWorkspace::new();
    let (mut keeper, _) = keep(&place);
    let test = ContainerTest::at(place, settings);
    assert_eq!(test.containers().len(), 1);
    keeper.kill().expect("it runs");
    keeper.wait().expect("killed");
    test.gone();
}

#[test]
fn nothing_is_left_of_a_haft_that_ends_everything() {
    let Some(settings) = settings() else { return };
    let place = TestWorkspace::new();
    place.file("ends", "");
    let (mut keeper, mut lines) = keep(&place);
    assert!(lines.any(|line| line.ends_with("left 0")), "something is left");
    assert!(keeper.wait().expect("it ends").success());
    assert!(ContainerTest::at(place, settings).containers().is_empty());
}

#[tokio::test]
async fn what_a_haft_has_left_that_is_gone_is_removed_by_the_next() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    // Named like ours, but with a process id that cannot exist.
    test.run("true").await;
    let own = test.containers().remove(0);
    let pid = std::process::id().to_string();
    let names: Vec<String> =
        own.split('-').map(|part| if part == pid { "4194999" } else { part }.to_owned()).collect();
    let dead = names.join("-");
    let person = format!("haft-of-a-person-{pid}");
    let _made = [dead.as_str(), &person].map(|name| ManualContainer::new(&test, name));
    let next = ContainerTest::new(test.settings.clone());
    next.run("true").await;
    let begun = Instant::now();
    while test.containers().contains(&dead) {
        assert!(begun.elapsed() < TIMEOUT, "it is left");
    }
    assert!(test.containers().contains(&own), "we live");
    assert!(test.containers().contains(&person), "visible only to them");
}

/// A container that was created by hand; removed on drop.
struct ManualContainer<'a> {
    test: &'a ContainerTest,
    name: String,
}

impl<'a> ManualContainer<'a> {
    fn new(test: &'a ContainerTest, name: &str) -> Self {
        let label = format!("haft.workspace={}", test.place.root.display());
        let words =
            ["run", "--detach", "--network", "none", "--label", "haft=1", "--label", &label];
        let end = ["--name", name, "--entrypoint", "sleep", "haft-test", "1000"];
        test.engine(&[&words[..], &end].concat());
        Self { test, name: name.to_owned() }
    }
}

impl Drop for ManualContainer<'_> {
    /// With options that both engines know.
    fn drop(&mut self) {
        self.test.engine(&["kill", &self.name]);
        self.test.engine(&["rm", "--force", &self.name]);
    }
}

/// A program that replaces the engine.
fn fake_engine(place: &TestWorkspace, text: &str) -> Option<String> {
    let path = place.outside.join("engine");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    Some(path.display().to_string())
}

#[track_caller]
fn check_refused(place: TestWorkspace, settings: ContainerSettings, kind: ErrorKind, words: &str) {
    let test = ContainerTest::at(place, settings);
    let error = test.start("true").err().expect("refused");
    assert_eq!(error.kind(), kind, "{error}");
    let told = format!("{error} / {}", error.next_step());
    assert!(told.contains(words), "{told}");
    assert_eq!(test.programs.processes("direct").len(), 0);
}

#[tokio::test]
async fn a_missing_engine_or_image_is_reported_with_advice() {
    let Some(settings) = settings() else { return };
    let unavailable = ErrorKind::Unavailable;
    let with_image =
        |image: &str| ContainerSettings { image: image.to_owned(), ..settings.clone() };
    let with_engine =
        |engine| ContainerSettings { engine, timeout: Duration::from_secs(2), ..settings.clone() };
    check_refused(
        TestWorkspace::new(),
        with_image("haft-none"),
        ErrorKind::NotFound,
        "pull haft-none",
    );
    check_refused(TestWorkspace::new(), with_image("haft-bare"), unavailable, "has no `sh`");
    let nowhere = with_engine(Some("/nowhere/podman".to_owned()));
    check_refused(TestWorkspace::new(), nowhere, unavailable, "`/nowhere/podman` does not exist");
    let stranger = with_engine(Some("/bin/true".to_owned()));
    check_refused(TestWorkspace::new(), stranger, unavailable, "neither podman nor docker");
    let place = TestWorkspace::new();
    let off = "case $1 in --version) echo Docker version 1;; *) echo no daemon >&2; exit 1;; esac";
    let off = with_engine(fake_engine(&place, off));
    check_refused(place, off, unavailable, "does not respond (no daemon)");
    let place = TestWorkspace::new();
    let hangs = "case $1 in --version) echo podman version 1;; *) exec sleep 4723;; esac";
    let hangs = with_engine(fake_engine(&place, hangs));
    let begun = Instant::now();
    check_refused(place, hangs, unavailable, "does not respond");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let bad = ContainerSettings { memory: "1".to_owned(), ..settings.clone() };
    check_refused(TestWorkspace::new(), bad, unavailable, "the container could not be created");
}

#[tokio::test]
async fn a_removed_engine_is_reported_and_running_commands_can_be_ended() {
    let Some(settings) = settings() else { return };
    let place = TestWorkspace::new();
    let real = settings.engine.clone().expect("named");
    let engine = fake_engine(&place, &format!("exec {real} \"$@\""));
    let path = PathBuf::from(engine.clone().expect("made"));
    let test = ContainerTest::at(place, ContainerSettings { engine, ..settings.clone() });
    let word = format!("4724.{}", std::process::id());
    let process = test.start(&format!("setsid sleep {word} & echo up; sleep {word}"));
    let process = process.expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    fs::remove_file(&path).expect("ours");
    let error = test.start("true").err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    process.kill(KillReason::OnRequest).await;
    assert_eq!((process.status().state, count(&word)), (ProcessState::Killed, 0));
    drop(process);
    let ContainerTest { place, programs, .. } = test;
    drop(programs);
    assert!(ContainerTest::at(place, settings).containers().is_empty());
}

#[tokio::test]
async fn programs_are_looked_for_in_the_image() {
    let Some(settings) = settings() else { return };
    let test = ContainerTest::new(settings);
    test.place.file("run.sh", "#!/bin/sh\necho ran \"$@\"\n");
    fs::set_permissions(test.place.root.join("run.sh"), fs::Permissions::from_mode(0o755))
        .expect("ours");
    let power = Shell::unchecked(test.programs.clone());
    let start = |name: &str| {
        let arguments = vec!["a b".to_owned(), "$HOME".to_owned()];
        let program = Program::Direct { name: name.to_owned(), arguments };
        power
            .start(Launch { confinement: WITHOUT_NETWORK, ..power.launch(program, Path::new(".")) })
    };
    for (name, expected) in
        [("echo", "a b $HOME\n"), ("./run.sh", "ran a b $HOME\n"), ("/bin/echo", "a b $HOME\n")]
    {
        let process = start(name).expect("it starts");
        over(&*process).await;
        assert_eq!(said(&*process, Stream::Out), expected, "{name}");
    }
    for name in ["cargo", "cd", "./none", "/bin", "a\nb", &"x".repeat(9_000)] {
        let error = start(name).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::NotFound), "{name}");
    }
    assert_eq!(test.run("echo alive").await.1, "alive\n");
}
