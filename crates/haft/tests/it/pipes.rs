//! Standard input and output at their limits.

use std::{
    fs::File,
    io::{ErrorKind, Write},
    process::Stdio,
};

use crate::fixture::Fixture;

#[test]
fn too_much_input_is_refused_without_reading_it_all() {
    const OFFERED: usize = 50 << 20;
    let fixture = Fixture::new();
    let mut command = fixture.haft(&["call", "hello", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("haft runs");
    let mut stdin = child.stdin.take().expect("piped");
    let chunk = vec![b' '; 1 << 16];
    let mut n_taken = 0;
    let mut end = Ok(());
    while n_taken < OFFERED && end.is_ok() {
        end = stdin.write_all(&chunk);
        n_taken += chunk.len();
    }
    assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
    assert!(n_taken < 20 << 20, "{n_taken} bytes were taken");
    assert_eq!(child.wait().expect("haft ends").code(), Some(9));
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let fixture = Fixture::new();
    for arguments in [vec!["tools"], vec!["--help"], vec!["--version"], vec!["hello", "Ada"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = fixture.haft(&arguments).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.expect("haft runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(
            output.stderr.is_empty(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_closed_stream_is_nobodys_file() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let fixture = Fixture::new();
        let script = format!("exec \"$0\" \"$@\" {closed}");
        let haft = fixture.haft(&["--approve", "all", "write", "a.txt", "words"]);
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(script).arg(haft.get_program()).args(haft.get_args());
        shell.current_dir(haft.get_current_dir().expect("a folder")).stdin(Stdio::null());
        shell.envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let status = shell.output().expect("a shell").status;
        assert_eq!(status.code(), Some(0), "{closed}");
        let written = std::fs::read_to_string(fixture.path("project/a.txt")).expect("written");
        assert_eq!(written, "words", "{closed}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").expect("linux has it");
    let output = Fixture::new().haft(&["hello", "Ada"]).stdout(full).output().expect("haft runs");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write to standard output"), "{told}");
}

#[test]
fn what_is_piped_passes_unchanged() {
    let ran = Fixture::new().run(&["hello", "\u{1b}[31mAda\u{202e}"]);
    assert_eq!(ran.out, "Hello, \u{1b}[31mAda\u{202e}!");
}
