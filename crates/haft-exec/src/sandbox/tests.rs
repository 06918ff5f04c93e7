//! Tests every restriction with real programs that try to bypass it, in each backend and with each
//! confinement.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    net::{TcpListener, UdpSocket},
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::fs::PermissionsExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use haft_core::{
    ErrorKind,
    commands::{Confinement, Launch, Program, Stdin, Streams},
    files::FileGrant,
};

use super::{
    BackendChoice, ChosenBackend, ProbeResult, backend,
    bubblewrap::Bubblewrap,
    choose,
    landlock::Landlock,
    probe,
    trial::{self, TrialOutcome},
    verdicts,
};
use crate::{
    Workspace,
    processes::{
        backend::{LaunchBackend, LaunchContext, Recipe},
        closed::Closed,
    },
};

mod modes;
mod namespace_sets;
mod refusals;
mod sockets;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Landlock,
    /// A machine that allows no mounts.
    Bare,
    Bubblewrap,
}

use Which::{Bare, Bubblewrap as WithBubblewrap, Landlock as WithMounts};

const WRITING: &[Which] = &[WithMounts, WithBubblewrap];
const ALL: &[Which] = &[WithMounts, Bare, WithBubblewrap];

/// A small machine: a workspace with a repository, a home directory with secrets, and a file
/// outside.
struct TestMachine {
    landlock: Landlock,
    bare: Landlock,
    bubblewrap: Bubblewrap,
    directory: tempfile::TempDir,
    path: String,
    home: PathBuf,
}

impl TestMachine {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        for folder in [
            "workspace/src",
            "home/.ssh",
            "home/.config/gh",
            "home/.config/git",
            "home/plain",
            "outside",
            "scratch",
        ] {
            fs::create_dir_all(at.join(folder)).expect("made");
        }
        for (file, text) in [
            ("workspace/src/main.c", "int main(void) { return 0; }"),
            ("home/.ssh/id", "private key"),
            ("home/.bash_history", "secret words"),
            ("home/.config/gh/hosts.yml", "token"),
            ("home/.config/git/ignore", "plain"),
            ("home/.config/git/credentials", "token"),
            ("home/plain/file", "plain"),
            ("outside/file", "untouched"),
        ] {
            fs::write(at.join(file), text).expect("written");
        }
        let git = Command::new("git")
            .args(["init", "-q", "."])
            .current_dir(at.join("workspace"))
            .status();
        assert!(git.expect("git is there").success());
        let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned();
        let scratch = at.join("scratch");
        Self {
            landlock: Landlock::knowing(&scratch, true),
            bare: Landlock::knowing(&scratch, false),
            bubblewrap: Bubblewrap::find(&scratch).expect("installed on machines that test this"),
            home: at.join("home"),
            path,
            directory,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn context(&self) -> LaunchContext {
        let path = self.at("workspace").canonicalize().expect("there");
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), self.path.clone().into()),
            ("HOME".into(), self.home.clone().into()),
            ("TERM".into(), "dumb".into()),
            ("PWD".into(), path.clone().into()),
            ("OUT".into(), self.at("outside").into()),
            ("HAFT".into(), std::process::id().to_string().into()),
            ("SSH_AUTH_SOCK".into(), "/somewhere/agent".into()),
        ];
        environment.push(("REAL".into(), self.directory.path().into()));
        let directory = OwnedFd::from(fs::File::open(&path).expect("opened"));
        LaunchContext {
            workspace: Arc::new(Workspace::open(&path).expect("opened")),
            directory,
            path,
            environment,
            closed: Arc::default(),
            private: Arc::default(),
            shown: Arc::default(),
        }
    }

    fn recipe(&self, which: Which, launch: &Launch, context: &LaunchContext) -> Recipe {
        let recipe = match which {
            WithMounts => self.landlock.recipe(launch, context),
            Bare => self.bare.recipe(launch, context),
            WithBubblewrap => self.bubblewrap.recipe(launch, context),
        };
        recipe.expect("this machine has the backend")
    }

    fn run(&self, which: Which, confinement: Confinement, program: Program) -> TrialOutcome {
        let context = self.context();
        let launch = launch(program, confinement);
        let recipe = self.recipe(which, &launch, &context);
        trial::run(recipe, &context.path, Duration::from_secs(20)).expect("started")
    }

    fn shell(&self, which: Which, confinement: Confinement, script: &str) -> TrialOutcome {
        self.run(which, confinement, Program::Shell(script.to_owned()))
    }
}

fn launch(program: Program, confinement: Confinement) -> Launch {
    Launch {
        session: "test".to_owned(),
        program,
        directory: ".".into(),
        environment: Vec::new(),
        secrets: Vec::new(),
        confinement,
        input: Stdin::Closed,
        streams: Streams::Joined,
        grant: FileGrant::none(),
    }
}

fn perl(code: &str) -> Program {
    Program::Direct { name: "perl".to_owned(), arguments: vec!["-e".to_owned(), code.to_owned()] }
}

const WRITES: Confinement = Confinement { network: false, writes: true };
const READS: Confinement = Confinement { network: false, writes: false };
const CONNECTED: Confinement = Confinement { network: true, writes: true };
const CONNECTED_READS: Confinement = Confinement { network: true, writes: false };

/// The confinements that a backend accepts.
fn confinements(which: Which) -> &'static [Confinement] {
    if which == Bare {
        &[READS, CONNECTED_READS]
    } else {
        &[WRITES, READS, CONNECTED, CONNECTED_READS]
    }
}

/// Checks that the script fails in every backend, with any confinement.
#[track_caller]
fn check_fails(machine: &TestMachine, script: &str) {
    for which in ALL {
        for confinement in confinements(*which) {
            let outcome = machine.shell(*which, *confinement, script);
            assert!(
                outcome.code.is_some_and(|code| code != 0),
                "{which:?} {confinement:?}: `{script}`: {outcome:?}"
            );
        }
    }
}

/// Checks that the script succeeds in these backends, with this output.
#[track_caller]
fn check_says(
    machine: &TestMachine,
    backends: &[Which],
    confinement: Confinement,
    script: &str,
    output: &str,
) {
    for which in backends {
        let outcome = machine.shell(*which, confinement, script);
        assert_eq!(
            (outcome.code, outcome.output.trim()),
            (Some(0), output),
            "{which:?}: `{script}`: {outcome:?}"
        );
    }
}

#[test]
fn nothing_outside_can_be_written_made_removed_or_renamed() {
    let machine = TestMachine::new();
    for script in [
        "echo x > \"$OUT/file\"",
        "echo x > \"$OUT/new\"",
        "rm \"$OUT/file\"",
        "mv \"$OUT/file\" here",
        "mkdir \"$OUT/made\"",
        "chmod 777 \"$OUT/file\"",
        "truncate -s 0 \"$OUT/file\"",
        "ln -s \"$OUT\" link && echo x > link/new",
        "ln \"$OUT/file\" hard && echo x > hard",
        "echo x > \"/proc/self/root$OUT/file\"",
        "echo x > \"/proc/$PPID/root$OUT/file\"",
        "echo x > ../outside/file",
        "echo x > /usr/bin/haft-test",
        "echo x > /etc/haft-test",
        "echo x > \"$HOME/plain/file\"",
        "echo x > /haft-test",
    ] {
        check_fails(&machine, script);
    }
    assert_eq!(fs::read_to_string(machine.at("outside/file")).expect("there"), "untouched");
    assert_eq!(fs::read_dir(machine.at("outside")).expect("there").count(), 1);
    for path in ["/usr/bin/haft-test", "/etc/haft-test", "/haft-test"] {
        assert!(!Path::new(path).exists());
    }
}

#[test]
fn the_workspace_is_writable_only_when_that_is_granted() {
    let machine = TestMachine::new();
    let script = "mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && ln a/d a/e && ln -s d a/f && rm -r a && echo done";
    check_says(&machine, WRITING, WRITES, script, "done");
    for which in ALL {
        for script in
            ["echo x > new", "rm src/main.c", "mv src other", "touch src/main.c", "chmod 777 src"]
        {
            let outcome = machine.shell(*which, READS, script);
            assert_ne!(outcome.code, Some(0), "{which:?} {script}");
        }
        let outcome = machine.shell(*which, READS, "cat src/main.c");
        assert!(outcome.output.starts_with("int main"), "{which:?} {outcome:?}");
    }
    assert!(machine.at("workspace/src/main.c").exists() && !machine.at("workspace/new").exists());
}

#[test]
fn hooks_and_settings_of_git_and_haft_stay_as_they_are() {
    let machine = TestMachine::new();
    let config = fs::read_to_string(machine.at("workspace/.git/config")).expect("there");
    fs::create_dir_all(machine.at("workspace/.haft")).expect("made");
    fs::write(machine.at("workspace/.haft/kept"), "kept").expect("written");
    for script in [
        "echo x > .git/hooks/pre-commit",
        "cp src/main.c .git/hooks/",
        "mv src/main.c .git/hooks/pre-commit",
        "ln src/main.c .git/hooks/pre-commit",
        "ln -s ../../src .git/hooks/pre-commit",
        "rm -r .git/hooks",
        "mv .git/hooks .git/other",
        "echo x >> .git/config",
        "git config core.hooksPath src",
        "rm .git/config",
        "mv .git/config x",
        "echo x > new && mv new .git/config",
        "ln .git/config hard && echo x >> hard",
        "mv .git other",
        "rm -rf .git",
        "echo x > .haft/x",
        "rm -r .haft",
        "mv .haft other",
        "mkdir -p m/.git/hooks && perl -e 'rename(\".git\", \"old\") and rename(\"m/.git\", \".git\") or exit 1'",
        "perl -e 'syscall(316, -100, \".git/config\", -100, \"src/main.c\", 2) and exit 1'",
        "cd .git && echo x > hooks/pre-commit",
        "cd / && echo x > \"$REAL/workspace/.git/hooks/pre-commit\"",
        "echo x > \"/proc/self/cwd/.git/hooks/pre-commit\"",
    ] {
        check_fails(&machine, script);
    }
    assert_eq!(fs::read_to_string(machine.at("workspace/.git/config")).expect("there"), config);
    assert!(!machine.at("workspace/.git/hooks/pre-commit").exists());
    assert_eq!(fs::read_dir(machine.at("workspace/.haft")).expect("there").count(), 1);
}

#[test]
fn hooks_that_are_not_there_cannot_be_made() {
    for which in WRITING {
        let machine = TestMachine::new();
        fs::remove_dir_all(machine.at("workspace/.git/hooks")).expect("removed");
        fs::remove_file(machine.at("workspace/.git/config")).expect("removed");
        let script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo x > .git/config; mkdir .haft; echo x > .haft/x";
        machine.shell(*which, WRITES, script);
        assert!(!machine.at("workspace/.git/hooks/pre-commit").exists(), "{which:?}");
        assert!(!machine.at("workspace/.haft/x").exists(), "{which:?}");
        assert_eq!(
            fs::read_to_string(machine.at("workspace/.git/config")).unwrap_or_default(),
            "",
            "{which:?}"
        );
    }
}

#[test]
fn what_cannot_be_protected_is_refused() {
    for link in [".git", ".haft", ".git/hooks"] {
        let machine = TestMachine::new();
        let path = machine.at("workspace").join(link);
        if path.exists() {
            fs::rename(&path, machine.at("workspace/elsewhere")).expect("moved");
        }
        std::os::unix::fs::symlink(machine.at("workspace/elsewhere"), &path).expect("linked");
        let launch = launch(Program::Shell("true".to_owned()), WRITES);
        let error = Landlock::knowing(&machine.at("scratch"), true)
            .recipe(&launch, &machine.context())
            .err()
            .expect(link);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{link}");
        let error = Bubblewrap::find(&machine.at("scratch"))
            .expect("there")
            .recipe(&launch, &machine.context())
            .err()
            .expect(link);
        assert!(
            error.message().contains("is a link") && !error.next_step().is_empty(),
            "{link} {error:?}"
        );
    }
}

#[test]
fn of_the_home_only_what_tools_need_can_be_read() {
    let machine = TestMachine::new();
    for script in [
        "cat \"$HOME/.ssh/id\"",
        "cat \"$HOME/.bash_history\" | grep .",
        "cat \"$HOME/.config/gh/hosts.yml\"",
        "cat \"$HOME/.config/git/credentials\" | grep .",
        "cat \"$HOME/plain/file\"",
        "d=$HOME/plain; grep -r . $d",
        "ls \"$HOME/plain\"",
        "cat \"/proc/self/root$HOME/.ssh/id\"",
        "ls \"$HOME/.ssh\" | grep id",
        "ln -s \"$HOME/.ssh\" link; cat link/id",
        "ln \"$HOME/.ssh/id\" hard; cat hard",
        "mv \"$HOME/.ssh\" \"$HOME/other\"",
        "cat \"$OUT/file\"",
        "cat /etc/shadow | grep .",
    ] {
        check_fails(&machine, script);
    }
    check_says(&machine, ALL, READS, "cat \"$HOME/.config/git/ignore\"", "plain");
    check_says(&machine, ALL, READS, "echo \"${SSH_AUTH_SOCK-none}\"", "none");
}

#[test]
fn a_home_that_is_the_workspace_keeps_its_secrets() {
    let mut machine = TestMachine::new();
    machine.home = machine.at("workspace");
    fs::create_dir(machine.at("workspace/.ssh")).expect("made");
    fs::write(machine.at("workspace/.ssh/id"), "key").expect("written");
    check_fails(&machine, "cat .ssh/id");
    check_fails(&machine, "mv .ssh other && cat other/id");
    check_says(&machine, WRITING, WRITES, "echo x > new && cat new", "x");
}

#[test]
fn other_processes_can_be_neither_signalled_nor_looked_into() {
    let machine = TestMachine::new();
    let sleeper = Command::new("sleep").arg("1000").env("SECRET", "seen").spawn();
    let mut sleeper = Sleeper(sleeper.expect("started"));
    let pid = sleeper.0.id();
    for script in [
        format!("kill -0 {pid}"),
        format!("kill -9 {pid}"),
        format!("cat /proc/{pid}/environ | grep SECRET"),
        format!("cat /proc/{pid}/mem"),
        format!("ls /proc/{pid}/cwd/"),
        format!("cat /proc/{pid}/root/etc/passwd"),
        "readlink /proc/$HAFT/fd/0".to_owned(),
        "cat /proc/$HAFT/fd/0".to_owned(),
        "cat \"/proc/$HAFT/root$OUT/file\"".to_owned(),
        "cat /proc/$HAFT/environ | grep .".to_owned(),
    ] {
        check_fails(&machine, &script);
    }
    for which in [WithMounts, Bare] {
        assert_ne!(machine.shell(which, READS, "cat /proc/1/environ").code, Some(0), "{which:?}");
    }
    assert!(sleeper.0.try_wait().expect("known").is_none(), "it lives");
}

/// Killed with the test, however that ends.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number of an error that a call must end with.
#[track_caller]
fn check_call(
    machine: &TestMachine,
    backends: &[Which],
    name: &str,
    number: i64,
    arguments: &str,
    errors: &[i32],
) {
    for which in backends {
        for confinement in confinements(*which) {
            let code =
                format!("my @a = ({arguments}); exit(syscall({number}, @a) == -1 ? 0 + $! : 0)");
            let outcome = machine.run(*which, *confinement, perl(&code));
            let is_expected = outcome.code.is_some_and(|code| errors.contains(&code));
            assert!(is_expected, "{which:?} {confinement:?}: {name}: {outcome:?}");
        }
    }
}

#[test]
fn calls_that_change_the_machine_or_look_into_processes_are_denied() {
    let machine = TestMachine::new();
    let denied = [libc::EPERM];
    for (name, number, arguments) in [
        ("ptrace", libc::SYS_ptrace, "16, 1, 0, 0"),
        ("process_vm_readv", libc::SYS_process_vm_readv, "1, 0, 0, 0, 0, 0"),
        ("process_vm_writev", libc::SYS_process_vm_writev, "1, 0, 0, 0, 0, 0"),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, 0"),
        ("init_module", libc::SYS_init_module, "0, 0, 0"),
        ("finit_module", libc::SYS_finit_module, "0, 0, 0"),
        ("delete_module", libc::SYS_delete_module, "0, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        ("perf_event_open", libc::SYS_perf_event_open, "0, 0, 0, 0, 0"),
        ("keyctl", libc::SYS_keyctl, "0, 0, 0"),
        ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0"),
        ("request_key", libc::SYS_request_key, "0, 0, 0, 0"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "0, 0"),
        ("userfaultfd", libc::SYS_userfaultfd, "0"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "0, 0, 0"),
        ("reboot", libc::SYS_reboot, "0, 0, 0, 0"),
        ("swapon", libc::SYS_swapon, "0, 0"),
        ("settimeofday", libc::SYS_settimeofday, "0, 0"),
        ("clock_settime", libc::SYS_clock_settime, "0, 0"),
        ("personality that turns protections off", libc::SYS_personality, "0x0400000"),
        ("TIOCSTI", libc::SYS_ioctl, "0, 0x5412, 0"),
        ("TIOCSTI with more bits", libc::SYS_ioctl, "0, 0x100005412, 0"),
        ("TIOCLINUX", libc::SYS_ioctl, "0, 0x541c, 0"),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, "0, 0, 0"),
        ("vsock", libc::SYS_socket, "40, 1, 0"),
        ("packet", libc::SYS_socket, "17, 3, 0"),
        ("alg", libc::SYS_socket, "38, 5, 0"),
    ] {
        check_call(&machine, ALL, name, number, arguments, &denied);
    }
    check_call(&machine, ALL, "clone3", libc::SYS_clone3, "0, 0", &[libc::ENOSYS]);
    if cfg!(target_arch = "x86_64") {
        check_call(
            &machine,
            ALL,
            "ptrace of x32",
            0x4000_0000 | 521,
            "16, 1, 0, 0",
            &[libc::ENOSYS],
        );
    }
}

#[test]
fn no_program_creates_namespaces_or_mounts() {
    let machine = TestMachine::new();
    // Without root bubblewrap allows no further user namespaces, and that is reported.
    let denied = [libc::EPERM, libc::ENOSPC];
    for (name, number, arguments) in [
        ("mount", libc::SYS_mount, "\"none\", \"/tmp\", \"tmpfs\", 0, 0"),
        ("umount2", libc::SYS_umount2, "\"/proc\", 2"),
        ("pivot_root", libc::SYS_pivot_root, "\"/\", \"/tmp\""),
        ("chroot", libc::SYS_chroot, "\"/tmp\""),
        ("unshare of users", libc::SYS_unshare, "0x10000000"),
        ("unshare of mounts", libc::SYS_unshare, "0x00020000"),
        ("unshare of the network", libc::SYS_unshare, "0x40000000"),
        ("open_tree", libc::SYS_open_tree, "-100, \"/\", 1"),
        ("fsopen", libc::SYS_fsopen, "\"tmpfs\", 0"),
        ("sethostname", libc::SYS_sethostname, "\"x\", 1"),
    ] {
        check_call(&machine, ALL, name, number, arguments, &denied);
    }
    check_fails(&machine, "unshare -n true");
    check_fails(&machine, "unshare -Urm true");
    check_fails(&machine, "mount -t tmpfs none /tmp");
    check_fails(&machine, "umount .git/hooks && echo x > .git/hooks/pre-commit");
    check_fails(&machine, "mount -o remount,rw,bind .git/hooks && echo x > .git/hooks/pre-commit");
}

#[test]
fn tcp_and_udp_reach_others_only_when_the_network_is_granted() {
    let machine = TestMachine::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
    tcp.set_nonblocking(true).expect("set");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    udp.set_nonblocking(true).expect("set");
    let script = format!(
        "(echo x > /dev/tcp/127.0.0.1/{}) 2>/dev/null; echo x > /dev/udp/127.0.0.1/{}; exit 0",
        tcp.local_addr().expect("bound").port(),
        udp.local_addr().expect("bound").port()
    );
    for which in ALL {
        for confinement in confinements(*which) {
            machine.shell(*which, *confinement, &script);
            let received = (tcp.accept().is_ok(), udp.recv(&mut [0; 8]).is_ok());
            let expected = (confinement.network, confinement.network);
            assert_eq!(received, expected, "{which:?} {confinement:?}");
        }
    }
}

#[test]
fn sockets_of_others_cannot_be_reached_with_or_without_the_network() {
    let machine = TestMachine::new();
    let name = format!("haft-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let hidden = UnixListener::bind_addr(&address).expect("bound");
    hidden.set_nonblocking(true).expect("set");
    let path = machine.at("outside/socket");
    let listener = UnixListener::bind(&path).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let agent = UnixListener::bind(machine.at("home/.ssh/agent")).expect("bound");
    agent.set_nonblocking(true).expect("set");
    for target in [
        format!("\"\\0{name}\""),
        "\"$ENV{OUT}/socket\"".to_owned(),
        "\"$ENV{HOME}/.ssh/agent\"".to_owned(),
    ] {
        for sort in ["SOCK_STREAM", "SOCK_DGRAM"] {
            let code = format!(
                "use Socket; socket(my $s, AF_UNIX, {sort}, 0) or exit 1; connect($s, pack_sockaddr_un({target})) or exit 2; exit 0"
            );
            for which in ALL {
                for confinement in confinements(*which) {
                    let outcome = machine.run(*which, *confinement, perl(&code));
                    assert!(
                        matches!(outcome.code, Some(1 | 2)),
                        "{which:?} {confinement:?} {target}: {outcome:?}"
                    );
                }
            }
        }
    }
    assert!(hidden.accept().is_err() && listener.accept().is_err() && agent.accept().is_err());
}

#[test]
fn sandboxed_programs_may_talk_to_each_other() {
    let machine = TestMachine::new();
    let code = "use Socket; socket(my $l, AF_UNIX, SOCK_STREAM, 0); bind($l, pack_sockaddr_un('own.socket')) or exit 1; \
                listen($l, 1); socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un('own.socket')) or exit 2; \
                unlink 'own.socket'; exit 0";
    for which in WRITING {
        assert_eq!(machine.run(*which, WRITES, perl(code)).code, Some(0), "{which:?}");
    }
}

#[test]
fn settings_of_the_kernel_and_devices_are_out_of_reach_even_for_root() {
    let machine = TestMachine::new();
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("readable");
    for script in [
        "cat /proc/sys/kernel/core_pattern > x; echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 1 > /proc/sys/vm/drop_caches",
        "echo x > /sys/kernel/uevent_helper",
        "echo 0 > /sys/kernel/mm/ksm/run",
        "for device in $(awk 'NR > 2 { print $4 }' /proc/partitions); do head -c 1 /dev/$device && exit 0; done; exit 1",
        "mknod disk b 254 0",
        "mknod \"$TMPDIR/disk\" b 254 0",
        "mknod \"$TMPDIR/mem\" c 1 1",
        "head -c 1 /dev/mem",
        "head -c 1 /dev/kmsg",
        "dmesg",
        "hostname other",
        "date -s 2001-01-01",
    ] {
        check_fails(&machine, script);
    }
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").expect("readable"), before);
    check_says(
        &machine,
        ALL,
        READS,
        "grep NoNewPrivs /proc/self/status | tr -d '\\t'",
        "NoNewPrivs:1",
    );
    // The four capabilities over files, and no other.
    check_says(
        &machine,
        ALL,
        READS,
        "c=$(awk '/CapEff/ { print $2 }' /proc/self/status); echo $(( 0x$c & ~0x1b ))",
        "0",
    );
    check_says(
        &machine,
        &[WithMounts],
        READS,
        "c=$(awk '/CapBnd/ { print $2 }' /proc/self/status); echo $(( 0x$c & ~0x1b ))",
        "0",
    );
}

#[test]
fn a_programs_temporary_files_are_its_own_and_its_sessions() {
    let machine = TestMachine::new();
    let marker = format!("/tmp/haft-test-{}", std::process::id());
    fs::write(&marker, "of the machine").expect("written");
    for which in WRITING {
        let outcome = machine.shell(*which, READS, &format!("cat {marker}"));
        assert_ne!(outcome.code, Some(0), "{which:?}");
    }
    fs::remove_file(&marker).expect("removed");
    check_says(
        &machine,
        ALL,
        READS,
        "file=$(mktemp) && echo own > \"$file\" && cat \"$file\"",
        "own",
    );
    check_says(&machine, WRITING, READS, &format!("echo own > {marker} && cat {marker}"), "own");
    assert!(!Path::new(&marker).exists());
}

#[test]
fn a_session_keeps_its_temporary_files_until_the_backend_is_dropped() {
    let machine = TestMachine::new();
    let context = machine.context();
    let backend = Landlock::knowing(&machine.at("scratch"), true);
    let run = |session: &str, script: &str| {
        let launch = Launch {
            session: session.to_owned(),
            ..launch(Program::Shell(script.to_owned()), READS)
        };
        let recipe = backend.recipe(&launch, &context).expect("works here");
        trial::run(recipe, &context.path, Duration::from_secs(20)).expect("started").code
    };
    assert_eq!(run("one", "echo x > /tmp/mine"), Some(0));
    assert_eq!(run("one", "cat /tmp/mine"), Some(0));
    assert_eq!(run("two", "cat /tmp/mine"), Some(1));
    backend.forget("one");
    assert_eq!(run("one", "cat /tmp/mine"), Some(1));
    drop(backend);
    assert_eq!(fs::read_dir(machine.at("scratch")).expect("there").count(), 0);
}

#[test]
fn shells_and_their_pipelines_just_work() {
    let machine = TestMachine::new();
    for (script, output) in [
        ("echo a b | tr ' ' '\\n' | sort -r | paste -sd,", "b,a"),
        ("cat <<END\nhere\nEND", "here"),
        ("cat < /dev/null; echo x > /dev/null; echo $?", "0"),
        ("echo x | cat /dev/stdin", "x"),
        ("echo x > /dev/stdout", "x"),
        ("echo x | cat /dev/fd/0", "x"),
        ("cat <(echo x)", "x"),
        ("bash -c 'sh -c \"echo nested\"'", "nested"),
        ("head -c 4 /dev/zero | wc -c", "4"),
        ("head -c 4 /dev/urandom | wc -c", "4"),
        ("ps -o comm= -p $$ | head -1", "bash"),
        ("ls -d /usr", "/usr"),
        ("(exit 3); echo $?", "3"),
        ("sleep 0 & wait && echo waited", "waited"),
        ("getent passwd $(id -u) | wc -l", "1"),
        ("git status --porcelain | head -1", "?? src/"),
        ("pwd -P | xargs basename", "workspace"),
        ("command -v git > /dev/null && echo found", "found"),
        ("perl -e 'open(my $t, \"+<\", \"/dev/ptmx\") or die $!; print \"terminal\"'", "terminal"),
        ("python3 -c 'print(6 * 7)'", "42"),
        (
            "perl -e 'use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die $!; print 1'",
            "1",
        ),
        ("kill -0 $$ && sleep 100 & kill $! && echo ended", "ended"),
    ] {
        check_says(&machine, ALL, READS, script, output);
    }
    check_says(&machine, WRITING, READS, "ls / | grep -c -x -e usr -e etc -e tmp -e proc", "4");
    let commit = "git add . && git -c user.name=a -c user.email=a@b commit -qm first && git log --oneline | wc -l";
    let make = "printf 'all:\\n\\t@echo made\\n' > Makefile && make && rm Makefile";
    for which in WRITING {
        let machine = TestMachine::new();
        check_says(&machine, &[*which], WRITES, make, "made");
        check_says(&machine, &[*which], WRITES, commit, "1");
        check_says(
            &machine,
            &[*which],
            WRITES,
            "git checkout -q -b other && git branch --show-current",
            "other",
        );
        check_says(
            &machine,
            &[*which],
            WRITES,
            "cc -o main src/main.c && ./main && echo built",
            "built",
        );
    }
}

#[test]
fn the_programs_of_the_real_home_work() {
    let mut machine = TestMachine::new();
    machine.home = env!("HOME").into();
    machine.path = env!("PATH").to_owned();
    let cargo = env!("CARGO");
    for which in ALL {
        let outcome = machine.shell(*which, READS, &format!("{cargo} --version"));
        assert!(outcome.output.starts_with("cargo 1."), "{which:?} {outcome:?}");
        let outcome = machine.shell(*which, READS, "python3 -c 'print(6 * 7)'");
        assert_eq!(outcome.output.trim(), "42", "{which:?} {outcome:?}");
    }
}

#[test]
fn programs_on_a_path_in_a_temporary_folder_work() {
    for temporary in ["/tmp", "/var/tmp"] {
        let tools = tempfile::tempdir_in(temporary).expect("a folder");
        let bin = tools.path().join("bin");
        fs::create_dir(&bin).expect("made");
        fs::write(bin.join("greet"), "#!/bin/sh\necho hello\n").expect("written");
        fs::set_permissions(bin.join("greet"), fs::Permissions::from_mode(0o755)).expect("set");
        let mut machine = TestMachine::new();
        machine.path = format!("{}:{}", bin.display(), machine.path);
        for which in ALL {
            let script = format!("greet && echo x > $TMPDIR/x && ! touch {}/x", bin.display());
            let outcome = machine.shell(*which, READS, &script);
            assert!(outcome.output.starts_with("hello"), "{which:?} {outcome:?}");
            assert_eq!(outcome.code, Some(0), "{which:?} {outcome:?}");
        }
    }
}

#[test]
fn roots_inside_each_other_are_each_protected() {
    let machine = TestMachine::new();
    fs::create_dir_all(machine.at("outside/inner/.git/hooks")).expect("made");
    fs::create_dir_all(machine.at("outside/.git/hooks")).expect("made");
    for which in WRITING {
        let mut context = machine.context();
        let mut workspace = Workspace::open(&context.path).expect("opened");
        for (name, path) in [("inner", "outside/inner"), ("outer", "outside")] {
            workspace.add_root(name, &machine.at(path)).expect("added");
        }
        context.workspace = Arc::new(workspace);
        let script = "echo x > $OUT/file && echo x > $OUT/inner/file || exit 9
            echo x > $OUT/.git/hooks/x && exit 1; echo x > $OUT/inner/.git/hooks/x && exit 2; exit 0";
        let launch = launch(Program::Shell(script.to_owned()), WRITES);
        let recipe = machine.recipe(*which, &launch, &context);
        let outcome = trial::run(recipe, &context.path, Duration::from_secs(20)).expect("started");
        assert_eq!(outcome.code, Some(0), "{which:?} {outcome:?}");
    }
}

#[test]
fn writing_without_mounts_is_refused() {
    let machine = TestMachine::new();
    let backend = Landlock::knowing(&machine.at("scratch"), false);
    let launch = launch(Program::Shell("true".to_owned()), WRITES);
    let error = backend.recipe(&launch, &machine.context()).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.message().contains(".git/hooks") && error.next_step().contains("bubblewrap"),
        "{error:?}"
    );
}

#[test]
fn the_root_directory_is_refused_as_a_workspace() {
    let machine = TestMachine::new();
    let context = LaunchContext {
        workspace: Arc::new(Workspace::open(Path::new("/")).expect("opened")),
        ..machine.context()
    };
    let launch = launch(Program::Shell("true".to_owned()), READS);
    for has_mounts in [true, false] {
        let error = Landlock::knowing(&machine.at("scratch"), has_mounts)
            .recipe(&launch, &context)
            .err()
            .expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    let found = verdicts(&context.workspace);
    assert!(found.iter().any(|verdict| verdict.mechanism == "workspace" && !verdict.works));
}

#[test]
fn each_mechanism_is_found_working_by_using_it() {
    let machine = TestMachine::new();
    let found = verdicts(&machine.context().workspace);
    let names: BTreeSet<&str> = found.iter().map(|verdict| verdict.mechanism).collect();
    assert_eq!(
        names,
        BTreeSet::from(["landlock", "seccomp", "user namespaces", "bubblewrap", "limits"])
    );
    for verdict in &found {
        assert!(verdict.works, "this machine is one that has everything: {verdict:?}");
    }
    assert!(probe::landlock().detail.starts_with("version "), "{:?}", probe::landlock());
    for wanted in [BackendChoice::Auto, BackendChoice::Landlock, BackendChoice::Bubblewrap] {
        assert!(backend(wanted, &machine.at("scratch")).is_ok(), "{wanted:?}");
    }
}

#[test]
fn what_does_not_work_is_refused_with_advice_and_nothing_else_is_taken_for_it() {
    let verdict = |mechanism, works| ProbeResult {
        mechanism,
        works,
        detail: "not installed".to_owned(),
        advice: Some("install it".to_owned()),
    };
    for (wanted, bubblewrap, landlock, expected) in [
        (BackendChoice::Auto, true, true, Some(ChosenBackend::Bubblewrap)),
        (BackendChoice::Auto, false, true, Some(ChosenBackend::Landlock)),
        (BackendChoice::Auto, false, false, None),
        (BackendChoice::Bubblewrap, false, true, None),
        (BackendChoice::Landlock, true, false, None),
        (BackendChoice::Landlock, true, true, Some(ChosenBackend::Landlock)),
    ] {
        let (bubblewrap, landlock) =
            (verdict("bubblewrap", bubblewrap), verdict("landlock", landlock));
        let chosen = choose(wanted, || &bubblewrap, || &landlock);
        assert_eq!(chosen.as_ref().ok().copied(), expected, "{wanted:?}");
        if let Err(error) = chosen {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("not installed"), "{error:?}");
            assert!(error.next_step().contains("install it"), "{error:?}");
        }
    }
}

#[test]
fn closed_files_of_the_workspace_cannot_be_read() {
    let machine = TestMachine::new();
    fs::write(machine.at("workspace/.env"), "TOKEN=secret").expect("written");
    fs::create_dir(machine.at("workspace/keys")).expect("made");
    fs::write(machine.at("workspace/keys/a"), "secret").expect("written");
    let root = machine.at("workspace").canonicalize().expect("there");
    let closed = |name: &str, is_directory| Closed { path: root.join(name), is_directory };
    let gone = closed("gone", false);
    for which in ALL {
        let mut context = machine.context();
        context.closed = Arc::new(vec![closed(".env", false), gone.clone(), closed("keys", true)]);
        let confinement = if *which == Bare { READS } else { WRITES };
        let script = "cat .env src/main.c; ls keys; grep -rh secret . ; git add .env; rm -f .env; mv .env x; true";
        let launch = launch(Program::Shell(script.to_owned()), confinement);
        let recipe = machine.recipe(*which, &launch, &context);
        let outcome = trial::run(recipe, &context.path, Duration::from_secs(20)).expect("started");
        assert!(!outcome.output.contains("secret"), "{which:?}: {outcome:?}");
        assert!(outcome.output.contains(".env: Permission denied"), "{which:?}: {outcome:?}");
        assert!(outcome.output.contains("int main"), "{which:?}: {outcome:?}");
    }
    assert_eq!(fs::read_to_string(machine.at("workspace/.env")).expect("there"), "TOKEN=secret");
    let listed = Command::new("git")
        .args(["ls-files", "--cached"])
        .current_dir(machine.at("workspace"))
        .output()
        .expect("git is there");
    assert!(listed.stdout.is_empty(), "{listed:?}");
}
