//! Unix sockets with a path: those of other programs are out of reach wherever they are, and those
//! that a command creates itself are not.

use std::{fs, os::unix::net::UnixListener, path::Path, time::UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::{CONNECTED, TestMachine, WRITES, WRITING, confinements, perl};

/// A socket that is older than every command started after it. The clock of a command's start has a
/// resolution of milliseconds, and a file timestamp may be slightly ahead of it; then the file
/// counts as created by the command.
fn listener(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let created = fs::metadata(path).expect("there").created().expect("a creation time");
    let since = created.duration_since(UNIX_EPOCH).expect("after 1970");
    let created = (since.as_secs().cast_signed(), i64::from(since.subsec_nanos()));
    let has_passed = || {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec) > created
    };
    while !has_passed() {}
    listener
}

/// Connects to `$path`.
const CONNECT: &str = "use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
                       connect($s, pack_sockaddr_un($path)) or exit 2; exit 0";

#[test]
fn sockets_in_the_workspace_and_the_home_are_out_of_reach() {
    let machine = TestMachine::new();
    fs::create_dir_all(machine.at("home/.cache")).expect("made");
    let there = ["workspace/db.sock", "workspace/src/deep.sock", "home/.cache/agent"];
    let listeners = there.map(|at| listener(&machine.at(at)));
    for find in [
        "$path = 'db.sock'",
        "$path = './src/../db.sock'",
        "$path = \"$ENV{PWD}/src/deep.sock\"",
        "$path = \"$ENV{HOME}/.cache/agent\"",
        "chdir 'src'; $path = 'deep.sock'",
        "symlink 'db.sock', 'l'; $path = 'l'",
        "symlink \"$ENV{HOME}/.cache/agent\", 'm'; $path = 'm'",
        "link 'db.sock', 'hard'; $path = 'hard'",
        "rename 'db.sock', 'moved'; $path = 'moved'",
        "chmod 0777, 'moved'; utime 2e9, 2e9, 'moved'; $path = 'moved'",
        "rename 'moved', 'db.sock'; $path = \"/proc/self/cwd/db.sock\"",
        "$path = \"/proc/self/root$ENV{HOME}/.cache/agent\"",
    ] {
        for which in WRITING {
            for confinement in confinements(*which) {
                let outcome =
                    machine.run(*which, *confinement, perl(&format!("{find}; {CONNECT}")));
                assert_eq!(outcome.code, Some(2), "{which:?} {confinement:?} {find}: {outcome:?}");
            }
        }
    }
    assert!(listeners.iter().all(|listener| listener.accept().is_err()));
}

#[test]
fn nothing_is_sent_to_a_socket_without_connecting() {
    let machine = TestMachine::new();
    let path = machine.at("workspace/log.sock");
    let log = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
    log.set_nonblocking(true).expect("set");
    for made in ["socket(my $s, AF_UNIX, KIND, 0)", "socketpair(my $s, my $t, AF_UNIX, KIND, 0)"] {
        for kind in ["SOCK_DGRAM", "SOCK_RAW"] {
            let made = made.replace("KIND", kind);
            let code = format!(
                "use Socket; {made} or exit 1; send($s, 'x', 0, pack_sockaddr_un('log.sock')) or exit 2; exit 0"
            );
            for which in WRITING {
                for confinement in confinements(*which) {
                    let outcome = machine.run(*which, *confinement, perl(&code));
                    assert!(matches!(outcome.code, Some(1 | 2)), "{which:?} {made}: {outcome:?}");
                }
            }
        }
    }
    assert!(log.recv(&mut [0; 8]).is_err());
}

/// A server in a child, and a client that waits for its reply.
const OWN: &str = "use Socket; socket(my $l, AF_UNIX, SOCK_STREAM, 0); bind($l, pack_sockaddr_un($path)) or exit 1; \
                   listen($l, 1) or exit 2; if (!fork) { accept(my $c, $l); syswrite $c, 'hello'; exit } \
                   socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un($path)) or exit 3; \
                   sysread $s, my $x, 9; wait; unlink $path; print $x; exit 0";

#[test]
fn a_command_reaches_the_sockets_that_it_makes_itself() {
    let machine = TestMachine::new();
    for path in ["'own.sock'", "\"$ENV{PWD}/src/own.sock\"", "\"$ENV{TMPDIR}/own.sock\""] {
        for which in WRITING {
            for confinement in [WRITES, CONNECTED] {
                let outcome =
                    machine.run(*which, confinement, perl(&format!("$path = {path}; {OWN}")));
                let found = (outcome.code, outcome.output.as_str());
                assert_eq!(found, (Some(0), "hello"), "{which:?} {path}: {outcome:?}");
            }
        }
    }
}

#[test]
fn connections_of_the_network_wait_and_fail_as_without_a_sandbox() {
    let machine = TestMachine::new();
    let code = "use Socket; socket(my $l, AF_INET, SOCK_STREAM, 0); bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or exit 1; \
                listen($l, 1); my $to = getsockname $l; if (!fork) { accept(my $c, $l); syswrite $c, 'hello'; exit } \
                socket(my $s, AF_INET, SOCK_STREAM, 0); connect($s, $to) or exit 2; sysread $s, my $x, 9; wait; close $l; \
                socket(my $t, AF_INET, SOCK_STREAM, 0); connect($t, $to) and exit 3; print \"$x $!\"; exit 0";
    for which in WRITING {
        let outcome = machine.run(*which, WRITES, perl(code));
        let found = (outcome.code, outcome.output.as_str());
        assert_eq!(found, (Some(0), "hello Connection refused"), "{which:?}: {outcome:?}");
    }
}

/// One process changes the target of a name as fast as it can, another connects to the name.
#[test]
fn what_is_connected_to_is_what_was_judged() {
    let machine = TestMachine::new();
    let other = listener(&machine.at("workspace/other.sock"));
    let code = "use Socket; socket(my $l, AF_UNIX, SOCK_STREAM, 0); bind($l, pack_sockaddr_un('own.sock')) or exit 1; \
                listen($l, 1000); symlink 'own.sock', 'a'; symlink 'other.sock', 'b'; symlink 'a', 'name'; \
                my $child = fork; if (!$child) { while (1) { for my $to ('a', 'b') { symlink $to, 'next'; rename 'next', 'name' } } } \
                my $reached = 0; for (1..400) { socket(my $s, AF_UNIX, SOCK_STREAM, 0); \
                connect($s, pack_sockaddr_un('name')) and $reached++ } kill 9, $child; exit($reached ? 0 : 5)";
    for which in WRITING {
        let outcome = machine.run(*which, WRITES, perl(code));
        assert_eq!(outcome.code, Some(0), "{which:?}: {outcome:?}");
        assert!(other.accept().is_err(), "{which:?}");
        for made in ["own.sock", "a", "b", "name", "next"] {
            let _ = fs::remove_file(machine.at("workspace").join(made));
        }
    }
}

#[test]
fn a_denied_socket_is_reported_with_advice() {
    let machine = TestMachine::new();
    let path = machine.at("workspace").canonicalize().expect("there").join("db.sock");
    let _listener = listener(&path);
    for which in WRITING {
        let outcome = machine.run(*which, WRITES, perl(&format!("$path = 'db.sock'; {CONNECT}")));
        let [refusal] = &outcome.refused[..] else { panic!("{which:?}: {outcome:?}") };
        assert_eq!(refusal.what, format!("connect to {}", path.display()), "{which:?}");
        assert!(refusal.remedy.contains("$TMPDIR"), "{which:?}: {refusal:?}");
    }
}
