//! Starts real programs: their output, their end, and that nothing of them is left. The same tests
//! for every sandbox backend.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    ErrorKind, Shell,
    commands::{
        Executor, KillReason, Process, ProcessState, ProcessStatus, Program, Stdin, Stream, Streams,
    },
};
use haft_exec::{ProcessSettings, Programs, Variables, Workspace};

use crate::test_workspace::TestWorkspace;

/// Longer than any of this takes; only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

fn executor(process_settings: &ProcessSettings, place: &TestWorkspace) -> Arc<Programs> {
    let workspace = Arc::new(Workspace::open(&place.root).expect("a directory"));
    Arc::new(Programs::new(process_settings.clone(), workspace, environment, &place.root))
}

pub(crate) fn environment() -> Variables {
    let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent"), ("API_TOKEN", "x")];
    variables.map(|(name, value)| (name.into(), value.into())).into()
}

pub(crate) fn shell(text: &str) -> Program {
    Program::Shell(text.to_owned())
}

pub(crate) async fn wait(
    process: &dyn Process,
    until: impl Fn(ProcessStatus) -> bool,
) -> ProcessStatus {
    let mut changes = process.changes();
    let reached = async {
        loop {
            changes.mark_unchanged();
            let status = process.status();
            if until(status) {
                return status;
            }
            changes.changed().await.expect("the process tells");
        }
    };
    tokio::time::timeout(TIMEOUT, reached).await.expect("in time")
}

pub(crate) async fn over(process: &dyn Process) -> ProcessStatus {
    wait(process, |status| status.state.is_over()).await
}

pub(crate) fn said(process: &dyn Process, stream: Stream) -> String {
    let piece = process.output(stream, 0, usize::MAX).expect("in memory");
    String::from_utf8(piece.bytes).expect("text")
}

async fn run(
    process_settings: &ProcessSettings,
    place: &TestWorkspace,
    text: &str,
) -> (ProcessStatus, String) {
    let programs = executor(process_settings, place);
    let power = Shell::unchecked(programs.clone());
    let launch = power.launch(shell(text), Path::new("."));
    let process = power.start(launch).expect("it starts");
    (over(&*process).await, said(&*process, Stream::Out))
}

/// Starts a daemon that keeps nothing of its origin: two forks, a new session, no variables, no
/// open files.
const DAEMON: &str = "(setsid env -i /bin/sh -c \
    '(exec /bin/sleep WORD <&- >&- 2>&-) & exit' <&- >&- 2>&- &)";

/// Returns the number of processes with this word in their command line.
pub(crate) fn count(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("a table").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

async fn output_and_exit_code_are_the_programs(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let (status, text) = run(process_settings, &place, "echo one; echo two >&2; exit 3").await;
    assert_eq!((status.state, status.exit_code), (ProcessState::Exited, Some(3)));
    assert_eq!((text.as_str(), status.survivors), ("one\ntwo\n", 0));
    let (status, _) = run(process_settings, &place, "kill -9 $$").await;
    // The process that waits for it inside a namespace reports it as shells do.
    let (state, code, signal) = match process_settings {
        ProcessSettings::Bubblewrap | ProcessSettings::Container(_) => {
            (ProcessState::Exited, Some(137), None)
        }
        _ => (ProcessState::Signalled, None, Some(9)),
    };
    assert_eq!((status.state, status.exit_code, status.signal), (state, code, signal));
}

async fn streams_come_apart_when_they_are_asked_to(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let mut launch = power.launch(shell("echo one; echo two >&2"), Path::new("."));
    launch.streams = Streams::Apart;
    let process = power.start(launch).expect("it starts");
    over(&*process).await;
    assert_eq!(said(&*process, Stream::Out), "one\n");
    assert_eq!(said(&*process, Stream::Err), "two\n");
}

async fn a_program_has_a_clean_environment_and_nothing_to_read(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let (status, text) =
        run(process_settings, &place, "echo token=$API_TOKEN pager=$PAGER; cat; echo end").await;
    assert_eq!(status.exit_code, Some(0));
    assert_eq!(text, "token= pager=cat\nend\n");
}

async fn it_runs_in_the_given_directory_only(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    place.file("sub/file", "x");
    place.link("out", "/");
    let power = Shell::unchecked(executor(process_settings, &place));
    let process = power.start(power.launch(shell("ls"), Path::new("sub"))).expect("it starts");
    over(&*process).await;
    assert_eq!(said(&*process, Stream::Out), "file\n");
    for (directory, kind) in [
        ("missing", ErrorKind::NotFound),
        ("../..", ErrorKind::Denied),
        ("/etc", ErrorKind::Denied),
        ("out", ErrorKind::Denied),
        ("sub/file", ErrorKind::Input),
    ] {
        let error = power.start(power.launch(shell("ls"), Path::new(directory))).err();
        assert_eq!(error.map(|error| error.kind()), Some(kind), "{directory}");
    }
}

async fn what_cannot_be_started_is_refused_with_the_right_kind(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let direct = |name: &str| Program::Direct { name: name.to_owned(), arguments: vec![] };
    for (program, kind) in [
        (shell(" "), ErrorKind::Input),
        (shell("a\0b"), ErrorKind::Input),
        (shell(&"x".repeat(1 << 20)), ErrorKind::TooLarge),
        (direct("no-such-program"), ErrorKind::NotFound),
    ] {
        let error = power.start(power.launch(program, Path::new("."))).err();
        assert_eq!(error.map(|error| error.kind()), Some(kind));
    }
}

async fn killing_takes_everything_along(process_settings: &ProcessSettings) {
    for escape in [
        "sleep 4711.1 & sleep 4711.1",
        "setsid sleep 4711.1 & sleep 4711.1",
        "nohup sleep 4711.1 >/dev/null 2>&1 & sleep 4711.1",
        "(setsid sh -c 'sleep 4711.1 & sleep 4711.1' >/dev/null 2>&1 </dev/null &) ; sleep 4711.1",
        "env -i sleep 4711.1 & sleep 4711.1",
        "trap '' TERM HUP INT; sleep 4711.1 & while :; do sleep 4711.1; done",
    ] {
        let word = format!("4711.{}", std::process::id());
        let place = TestWorkspace::new();
        let power = Shell::unchecked(executor(process_settings, &place));
        let text = format!("{}; echo never", escape.replace("4711.1", &word));
        let ready = format!("echo ready; {text}");
        let process = power.start(power.launch(shell(&ready), Path::new("."))).expect("it starts");
        wait(&*process, |status| status.bytes > 0).await;
        process.kill(KillReason::ByTimeout).await;
        let status = process.status();
        assert_eq!(status.state, ProcessState::KilledByTimeout, "{escape}");
        assert_eq!(said(&*process, Stream::Out), "ready\n", "{escape}");
        assert_eq!(count(&word), 0, "{escape}");
    }
}

async fn a_daemon_ends_at_the_deadline(process_settings: &ProcessSettings) {
    let word = format!("4716.{}", std::process::id());
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let text = format!("{}\necho ready; sleep {word}", DAEMON.replace("WORD", &word));
    let process = power.start(power.launch(shell(&text), Path::new("."))).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    // The daemon starts by itself: the output says nothing about it.
    let begins = async {
        while count(&word) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, begins).await.expect("the daemon runs");
    process.kill(KillReason::ByTimeout).await;
    assert_eq!(process.status().state, ProcessState::KilledByTimeout);
    assert_eq!(count(&word), 0);
}

async fn nothing_outlives_its_command(process_settings: &ProcessSettings) {
    let word = format!("4712.{}", std::process::id());
    for rest in ["sleep WORD &", "nohup setsid sleep WORD >/dev/null 2>&1 </dev/null &", DAEMON] {
        let place = TestWorkspace::new();
        let text = format!("{}\nsleep 0.05; echo done", rest.replace("WORD", &word));
        let (status, text) = run(process_settings, &place, &text).await;
        assert_eq!((status.state, status.exit_code), (ProcessState::Exited, Some(0)), "{rest}");
        assert_eq!((text.as_str(), status.survivors), ("done\n", 0), "{rest}");
        assert_eq!(count(&word), 0, "{rest}");
    }
}

async fn a_process_ends_with_its_starter(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let word = format!("4713.{}", std::process::id());
    let programs = executor(process_settings, &place);
    let power = Shell::unchecked(programs.clone());
    let text = format!("echo ready; sleep {word}");
    let process = power.start(power.launch(shell(&text), Path::new("."))).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    drop((power, programs));
    assert_eq!(count(&word), 0);
    assert_eq!(over(&*process).await.state, ProcessState::Cancelled);
}

async fn an_endless_output_is_bounded_and_its_end_is_there(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let text = "yes 0123456789abcde | head -c 67108864; echo end";
    let process = power.start(power.launch(shell(text), Path::new("."))).expect("it starts");
    let status = over(&*process).await;
    assert_eq!(status.bytes, (64 << 20) + 4);
    let end = process.output(Stream::Out, status.bytes - 8, 100).expect("in memory");
    assert_eq!(end.bytes, b"cde\nend\n");
    let middle = process.output(Stream::Out, 32 << 20, 16).expect("on disk");
    assert_eq!((middle.begin, &*middle.bytes), (32 << 20, &b"0123456789abcde\n"[..]));
}

async fn an_open_input_is_written_to_and_waited_for(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let mut launch = power.launch(shell("read a; echo got $a; cat"), Path::new("."));
    launch.input = Stdin::Open;
    let process = power.start(launch).expect("it starts");
    let begun = Instant::now();
    while process.status().state != ProcessState::WaitingForInput && begun.elapsed() < TIMEOUT {
        tokio::task::yield_now().await;
    }
    assert_eq!(process.status().state, ProcessState::WaitingForInput);
    process.write(b"one\ntwo\n").await.expect("it reads");
    process.close_input().expect("open");
    over(&*process).await;
    assert_eq!(said(&*process, Stream::Out), "got one\ntwo\n");
    let error = process.write(b"x").await.expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

async fn a_terminal_is_one(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let mut launch = power
        .launch(shell("test -t 0 && test -t 1 && stty size; read x; echo =$x="), Path::new("."));
    launch.input = Stdin::Terminal { rows: 30, columns: 90 };
    let process = power.start(launch).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    process.write(b"hi\r").await.expect("a terminal reads");
    over(&*process).await;
    let text = said(&*process, Stream::Out);
    assert!(text.contains("30 90\r\n") && text.contains("=hi=\r\n"), "{text}");
}

async fn a_port_is_reported_while_it_is_listened_on(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let power = Shell::unchecked(executor(process_settings, &place));
    let text = "exec perl -MSocket -e 'socket S, PF_INET, SOCK_STREAM, 0; bind S, sockaddr_in(0, INADDR_LOOPBACK);
listen S, 1; ($port) = sockaddr_in(getsockname S); $| = 1; print \"$port\\n\"; <STDIN>'";
    let mut launch = power.launch(shell(text), Path::new("."));
    launch.input = Stdin::Open;
    let process = power.start(launch).expect("it starts");
    wait(&*process, |status| status.bytes > 0).await;
    let port: u16 = said(&*process, Stream::Out).trim().parse().expect("a port");
    assert!(process.listens(port));
    process.kill(KillReason::OnRequest).await;
    assert!(!process.listens(port));
    assert_eq!(process.status().state, ProcessState::Killed);
}

async fn a_session_sees_its_own_processes_only(process_settings: &ProcessSettings) {
    let place = TestWorkspace::new();
    let programs = executor(process_settings, &place);
    let power = Shell::unchecked(programs.clone());
    let process = power.start(power.launch(shell("true"), Path::new("."))).expect("it starts");
    over(&*process).await;
    assert_eq!(
        power.process(process.id()).map(|it| it.id().to_owned()).ok().as_deref(),
        Some(process.id())
    );
    assert!(programs.processes("another").is_empty());
    let error = power.process("p99").err().expect("unknown");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.next_step().contains(process.id()), "{error}");
}

macro_rules! suites {
    ($($suite:ident: $process_settings:expr;)*) => { $(
        mod $suite {
            #[tokio::test]
            async fn output_and_exit_code_are_the_programs() {
                let Some(process_settings) = $process_settings else { return };
                super::output_and_exit_code_are_the_programs(&process_settings).await;
            }

            #[tokio::test]
            async fn streams_come_apart_when_they_are_asked_to() {
                let Some(process_settings) = $process_settings else { return };
                super::streams_come_apart_when_they_are_asked_to(&process_settings).await;
            }

            #[tokio::test]
            async fn a_program_has_a_clean_environment_and_nothing_to_read() {
                let Some(process_settings) = $process_settings else { return };
                super::a_program_has_a_clean_environment_and_nothing_to_read(&process_settings).await;
            }

            #[tokio::test]
            async fn it_runs_in_the_given_directory_only() {
                let Some(process_settings) = $process_settings else { return };
                super::it_runs_in_the_given_directory_only(&process_settings).await;
            }

            #[tokio::test]
            async fn what_cannot_be_started_is_refused_with_the_right_kind() {
                let Some(process_settings) = $process_settings else { return };
                super::what_cannot_be_started_is_refused_with_the_right_kind(&process_settings).await;
            }

            #[tokio::test]
            async fn killing_takes_everything_along() {
                let Some(process_settings) = $process_settings else { return };
                super::killing_takes_everything_along(&process_settings).await;
            }

            #[tokio::test]
            async fn a_daemon_ends_at_the_deadline() {
                let Some(process_settings) = $process_settings else { return };
                super::a_daemon_ends_at_the_deadline(&process_settings).await;
            }

            #[tokio::test]
            async fn nothing_outlives_its_command() {
                let Some(process_settings) = $process_settings else { return };
                super::nothing_outlives_its_command(&process_settings).await;
            }

            #[tokio::test]
            async fn a_process_ends_with_its_starter() {
                let Some(process_settings) = $process_settings else { return };
                super::a_process_ends_with_its_starter(&process_settings).await;
            }

            #[tokio::test]
            async fn an_endless_output_is_bounded_and_its_end_is_there() {
                let Some(process_settings) = $process_settings else { return };
                super::an_endless_output_is_bounded_and_its_end_is_there(&process_settings).await;
            }

            #[tokio::test]
            async fn an_open_input_is_written_to_and_waited_for() {
                let Some(process_settings) = $process_settings else { return };
                super::an_open_input_is_written_to_and_waited_for(&process_settings).await;
            }

            #[tokio::test]
            async fn a_terminal_is_one() {
                let Some(process_settings) = $process_settings else { return };
                super::a_terminal_is_one(&process_settings).await;
            }

            #[tokio::test]
            async fn a_port_is_reported_while_it_is_listened_on() {
                let Some(process_settings) = $process_settings else { return };
                super::a_port_is_reported_while_it_is_listened_on(&process_settings).await;
            }

            #[tokio::test]
            async fn a_session_sees_its_own_processes_only() {
                let Some(process_settings) = $process_settings else { return };
                super::a_session_sees_its_own_processes_only(&process_settings).await;
            }
        }
    )* };
}

suites! {
    local: Some(haft_exec::ProcessSettings::Nothing);
    landlock: Some(haft_exec::ProcessSettings::Landlock);
    bubblewrap: Some(haft_exec::ProcessSettings::Bubblewrap);
    container: crate::containers::process_settings();
    docker: crate::docker::process_settings();
}
