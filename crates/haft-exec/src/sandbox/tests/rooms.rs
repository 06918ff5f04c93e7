//! Rooms are used again, by those they are for, and only as long as they are what they were.

use std::{fs, net::TcpListener, process::Command};

use super::{super::Room, *};

const LISTEN: &str = "use IO::Socket::INET; \
    my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 4711, Listen => 1, ReuseAddr => 1) or exit 3; \
    open(F, '>', 'listening'); close(F); my $c = $s->accept or exit 4; print $c 'from the other'; exit 0";
const ASK: &str = "use IO::Socket::INET; \
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => PORT) or do { print $!, readlink('/proc/self/ns/net'); exit 5 }; print scalar <$s>; exit 0";

/// The room that a program would get.
fn room(field: &Field, confinement: Confinement) -> Arc<Room> {
    let launch = launch(perl("1"), confinement);
    field.recipe(WithMounts, &launch, &field.context()).restrictions.room().expect("it has one")
}

#[test]
fn commands_of_a_session_share_a_room_and_others_do_not() {
    let field = Field::new();
    let first = room(&field, WRITES);
    let is_first = |confinement| Arc::ptr_eq(&room(&field, confinement), &first);
    assert!(is_first(WRITES));
    assert!(!is_first(READS), "another layout");
    assert!(!is_first(CONNECTED), "another network");
    assert!(is_first(WRITES), "all of them are kept");
    field.landlock.forget("test");
    assert!(!is_first(WRITES));
}

#[test]
fn a_room_that_is_not_whole_any_more_is_built_again() {
    let field = Field::new();
    let config = field.at("workspace/.git/config");
    let check = |what: &str, change: &dyn Fn()| {
        let before = room(&field, WRITES);
        change();
        assert!(!Arc::ptr_eq(&before, &room(&field, WRITES)), "{what}");
        for which in WRITING {
            let outcome = field.shell(*which, WRITES, "echo x >> .git/config");
            assert_ne!(outcome.code, Some(0), "{which:?}: {what}");
            let outcome = field.shell(*which, WRITES, "cat ~/.bash_history");
            assert_ne!(outcome.code, Some(0), "{which:?}: {what}");
            let outcome = field.shell(*which, WRITES, "cat .git/config && ls");
            assert_eq!(outcome.code, Some(0), "{which:?}: {what}: {outcome:?}");
        }
    };
    check("git replaces its settings by another file", &|| {
        let mut git = Command::new("git");
        git.args(["config", "user.name", "Ann"]).current_dir(field.at("workspace"));
        assert!(git.status().expect("git is there").success());
    });
    check("the same file, taken away and put back", &|| {
        let other = field.at("workspace/other");
        fs::hard_link(&config, &other).expect("linked");
        fs::remove_file(&config).expect("removed");
        fs::rename(&other, &config).expect("put back");
    });
    check("a secret of the home, replaced", &|| {
        let history = field.at("home/.config/git/credentials");
        fs::write(field.at("home/new"), "secret words").expect("written");
        fs::rename(field.at("home/new"), history).expect("replaced");
    });
    check("another workspace in its place", &|| {
        let (workspace, aside) = (field.at("workspace"), field.at("aside"));
        fs::rename(&workspace, &aside).expect("moved");
        let copied = Command::new("cp").arg("-r").args([&aside, &workspace]).status();
        assert!(copied.expect("cp is there").success());
    });
    check("hooks that were not there", &|| {
        fs::remove_dir_all(field.at("workspace/.git/hooks")).expect("removed");
    });
}

#[test]
fn a_session_without_the_network_has_one_of_its_own() {
    let field = Field::new();
    for which in WRITING {
        let served = std::thread::scope(|scope| {
            let server = scope.spawn(|| field.run(*which, WRITES, perl(LISTEN)));
            let ask = format!(
                "until [ -e listening ]; do :; done; rm listening; perl -e \"{}\"",
                ASK.replace("PORT", "4711").replace('$', "\\$")
            );
            let outcome = field.shell(*which, WRITES, &ask);
            assert_eq!(
                (outcome.code, outcome.output.as_str()),
                (Some(0), "from the other"),
                "{which:?}: {outcome:?}"
            );
            server.join().expect("it ran")
        });
        assert_eq!(served.code, Some(0), "{which:?}: {served:?}");
    }
    let machine = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = machine.local_addr().expect("bound").port();
    for which in WRITING {
        let outcome = field.run(*which, WRITES, perl(&ASK.replace("PORT", &port.to_string())));
        assert_eq!(outcome.code, Some(5), "{which:?}: the machine's own ports are not there");
    }
}
