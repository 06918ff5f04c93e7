//! Namespace sets are reused by their session, and only while they are unchanged.

use std::{fs, net::TcpListener, process::Command};

use super::{super::NamespaceSet, *};

const LISTEN: &str = "use IO::Socket::INET; \
    my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 4711, Listen => 1, ReuseAddr => 1) or exit 3; \
    open(F, '>', 'listening'); close(F); my $c = $s->accept or exit 4; print $c 'from the other'; exit 0";
const ASK: &str = "use IO::Socket::INET; \
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => PORT) or do { print $!, readlink('/proc/self/ns/net'); exit 5 }; print scalar <$s>; exit 0";

/// Returns the namespace set of a program.
fn namespace_set(machine: &TestMachine, confinement: Confinement) -> Arc<NamespaceSet> {
    let launch = launch(perl("1"), confinement);
    machine
        .recipe(WithMounts, &launch, &machine.context())
        .restrictions
        .namespace_set()
        .expect("it has one")
}

#[test]
fn commands_of_a_session_share_a_namespace_set_and_others_do_not() {
    let machine = TestMachine::new();
    let first = namespace_set(&machine, WRITES);
    let is_first = |confinement| Arc::ptr_eq(&namespace_set(&machine, confinement), &first);
    assert!(is_first(WRITES));
    assert!(!is_first(READS), "another layout");
    assert!(!is_first(CONNECTED), "another network");
    assert!(is_first(WRITES), "all of them are kept");
    machine.landlock.forget("test");
    assert!(!is_first(WRITES));
}

#[test]
fn a_changed_namespace_set_is_rebuilt() {
    let machine = TestMachine::new();
    let config = machine.at("workspace/.git/config");
    let check = |what: &str, change: &dyn Fn()| {
        let before = namespace_set(&machine, WRITES);
        change();
        assert!(!Arc::ptr_eq(&before, &namespace_set(&machine, WRITES)), "{what}");
        for which in WRITING {
            let outcome = machine.shell(*which, WRITES, "echo x >> .git/config");
            assert_ne!(outcome.code, Some(0), "{which:?}: {what}");
            let outcome = machine.shell(*which, WRITES, "cat ~/.bash_history");
            assert_ne!(outcome.code, Some(0), "{which:?}: {what}");
            let outcome = machine.shell(*which, WRITES, "cat .git/config && ls");
            assert_eq!(outcome.code, Some(0), "{which:?}: {what}: {outcome:?}");
        }
    };
    check("git replaces its settings by another file", &|| {
        let mut git = Command::new("git");
        git.args(["config", "user.name", "Ann"]).current_dir(machine.at("workspace"));
        assert!(git.status().expect("git is there").success());
    });
    check("the same file, taken away and put back", &|| {
        let other = machine.at("workspace/other");
        fs::hard_link(&config, &other).expect("linked");
        fs::remove_file(&config).expect("removed");
        fs::rename(&other, &config).expect("put back");
    });
    check("a secret of the home, replaced", &|| {
        let history = machine.at("home/.config/git/credentials");
        fs::write(machine.at("home/new"), "secret words").expect("written");
        fs::rename(machine.at("home/new"), history).expect("replaced");
    });
    check("another workspace in its place", &|| {
        let (workspace, aside) = (machine.at("workspace"), machine.at("aside"));
        fs::rename(&workspace, &aside).expect("moved");
        let copied = Command::new("cp").arg("-r").args([&aside, &workspace]).status();
        assert!(copied.expect("cp is there").success());
    });
    check("hooks that were not there", &|| {
        fs::remove_dir_all(machine.at("workspace/.git/hooks")).expect("removed");
    });
}

#[test]
fn a_session_without_the_network_has_its_own() {
    let machine = TestMachine::new();
    for which in WRITING {
        let served = std::thread::scope(|scope| {
            let server = scope.spawn(|| machine.run(*which, WRITES, perl(LISTEN)));
            let ask = format!(
                "until [ -e listening ]; do :; done; rm listening; perl -e \"{}\"",
                ASK.replace("PORT", "4711").replace('$', "\\$")
            );
            let outcome = machine.shell(*which, WRITES, &ask);
            assert_eq!(
                (outcome.code, outcome.output.as_str()),
                (Some(0), "from the other"),
                "{which:?}: {outcome:?}"
            );
            server.join().expect("it ran")
        });
        assert_eq!(served.code, Some(0), "{which:?}: {served:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    for which in WRITING {
        let outcome = machine.run(*which, WRITES, perl(&ASK.replace("PORT", &port.to_string())));
        assert_eq!(outcome.code, Some(5), "{which:?}: the machine's own ports are not there");
    }
}
