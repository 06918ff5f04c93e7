//! The denials that the kernel reports, in each backend.

use super::{ALL, CONNECTED, READS, TestMachine, WRITES, WRITING, Which, perl};
use haft_core::commands::{Confinement, Denial};

/// Checks that in these backends the script causes exactly these denials.
#[track_caller]
fn check(
    machine: &TestMachine,
    backends: &[Which],
    confinement: Confinement,
    script: &str,
    denied: &[&str],
) {
    for which in backends {
        let outcome = machine.shell(*which, confinement, script);
        let found: Vec<&str> =
            outcome.refused.iter().map(|refusal| refusal.what.as_str()).collect();
        assert_eq!(found, denied, "{which:?}: `{script}`: {outcome:?}");
    }
}

#[test]
fn a_denied_change_is_reported_with_its_path() {
    let machine = TestMachine::new();
    let outside = machine.at("outside");
    let outside = outside.canonicalize().expect("there");
    let write = |name: &str| format!("write {}/{name}", outside.display());
    for (script, denied) in [
        ("echo x > \"$OUT/new\"", write("new")),
        ("rm -f \"$OUT/file\"", write("file")),
        ("mkdir \"$OUT/made\"", write("made")),
        ("ln -s a \"$OUT/link\"", write("link")),
        ("truncate -s 0 \"$OUT/file\"", write("file")),
        ("cd src && echo x > ../../outside/new", write("new")),
        ("echo x > /usr/bin/haft-test", "write /usr/bin/haft-test".to_owned()),
        ("echo x > /bin/haft-test", "write /bin/haft-test".to_owned()),
    ] {
        check(&machine, WRITING, WRITES, script, &[&denied]);
    }
    let hook = machine.at("workspace").canonicalize().expect("there").join(".git/hooks/pre-commit");
    let denied = format!("write {}", hook.display());
    check(&machine, WRITING, WRITES, "echo x > .git/hooks/pre-commit", &[&denied]);
    let made = machine.at("workspace").canonicalize().expect("there").join("new");
    check(&machine, ALL, READS, "echo x > new", &[&format!("write {}", made.display())]);
}

#[test]
fn allowed_calls_are_not_reported() {
    let machine = TestMachine::new();
    for script in [
        "echo x > new && mkdir made && mv new made/x && rm -r made && echo x > /dev/null",
        "git add src && git -c user.name=a -c user.email=b@c commit -qm x && git status --short",
        "echo x > \"$TMPDIR/x\" && echo x > /tmp/y && cat /tmp/y > /dev/stdout && mktemp > /dev/null",
        "cat src/main.c /etc/hostname; ls /usr",
    ] {
        check(&machine, WRITING, WRITES, script, &[]);
    }
}

#[test]
fn a_missing_network_is_reported() {
    let machine = TestMachine::new();
    let connect = perl(
        "use Socket; socket(S, AF_INET, SOCK_STREAM, 0) or exit 3; \
         connect(S, pack_sockaddr_in(443, inet_aton('192.0.2.1'))) or exit 4",
    );
    let whats = |which: Which, confinement| {
        let outcome = machine.run(which, confinement, connect.clone());
        let whats = outcome.refused.iter().map(|refusal: &Denial| {
            assert!(refusal.remedy.contains("network=true"), "{refusal:?}");
            refusal.what.clone()
        });
        (outcome.code, whats.collect::<Vec<String>>())
    };
    assert_eq!(whats(Which::Bare, READS), (Some(3), vec!["use the network".to_owned()]));
    for which in WRITING {
        let there = vec!["connect to 192.0.2.1:443".to_owned()];
        assert_eq!(whats(*which, WRITES), (Some(4), there), "{which:?}");
    }
    // This machine may have a route there or not.
    assert_eq!(whats(Which::Landlock, CONNECTED).1, Vec::<String>::new());
}

#[test]
fn the_same_denial_is_reported_once_and_their_number_is_limited() {
    let machine = TestMachine::new();
    check(&machine, WRITING, WRITES, "for i in 1 2 3; do echo x > /srv/x; done", &["write /srv/x"]);
    for which in WRITING {
        let outcome =
            machine.shell(*which, WRITES, "for i in $(seq 40); do echo x > /srv/$i; done");
        assert_eq!(outcome.refused.len(), 16, "{which:?}");
    }
}
