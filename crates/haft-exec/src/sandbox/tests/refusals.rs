//! What the kernel tells of refused calls, behind each fence.

use super::{ALL, CONNECTED, Field, READS, WRITES, WRITING, Which, perl};
use haft_core::commands::{Confinement, Denial};

/// Behind these fences the script is told about with this, and with nothing else.
#[track_caller]
fn check(field: &Field, fences: &[Which], confinement: Confinement, script: &str, told: &[&str]) {
    for which in fences {
        let outcome = field.shell(*which, confinement, script);
        let found: Vec<&str> =
            outcome.refused.iter().map(|refusal| refusal.what.as_str()).collect();
        assert_eq!(found, told, "{which:?}: `{script}`: {outcome:?}");
    }
}

#[test]
fn a_refused_change_is_told_with_its_path() {
    let field = Field::new();
    let outside = field.at("outside");
    let outside = outside.canonicalize().expect("there");
    let write = |name: &str| format!("write {}/{name}", outside.display());
    for (script, told) in [
        ("echo x > \"$OUT/new\"", write("new")),
        ("rm -f \"$OUT/file\"", write("file")),
        ("mkdir \"$OUT/made\"", write("made")),
        ("ln -s a \"$OUT/link\"", write("link")),
        ("truncate -s 0 \"$OUT/file\"", write("file")),
        ("cd src && echo x > ../../outside/new", write("new")),
        ("echo x > /usr/bin/haft-test", "write /usr/bin/haft-test".to_owned()),
        ("echo x > /bin/haft-test", "write /bin/haft-test".to_owned()),
    ] {
        check(&field, WRITING, WRITES, script, &[&told]);
    }
    let hook = field.at("workspace").canonicalize().expect("there").join(".git/hooks/pre-commit");
    let told = format!("write {}", hook.display());
    check(&field, WRITING, WRITES, "echo x > .git/hooks/pre-commit", &[&told]);
    let made = field.at("workspace").canonicalize().expect("there").join("new");
    check(&field, ALL, READS, "echo x > new", &[&format!("write {}", made.display())]);
}

#[test]
fn what_is_allowed_is_not_told() {
    let field = Field::new();
    for script in [
        "echo x > new && mkdir made && mv new made/x && rm -r made && echo x > /dev/null",
        "git add src && git -c user.name=a -c user.email=b@c commit -qm x && git status --short",
        "echo x > \"$TMPDIR/x\" && echo x > /tmp/y && cat /tmp/y > /dev/stdout && mktemp > /dev/null",
        "cat src/main.c /etc/hostname; ls /usr",
    ] {
        check(&field, WRITING, WRITES, script, &[]);
    }
}

#[test]
fn a_network_that_is_not_there_is_told_and_one_that_is_not() {
    let field = Field::new();
    let connect = perl(
        "use Socket; socket(S, AF_INET, SOCK_STREAM, 0) or exit 3; \
         connect(S, pack_sockaddr_in(443, inet_aton('192.0.2.1'))) or exit 4",
    );
    let whats = |which: Which, confinement| {
        let outcome = field.run(which, confinement, connect.clone());
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
    // This machine may have a way there or not.
    assert_eq!(whats(Which::Landlock, CONNECTED).1, Vec::<String>::new());
}

#[test]
fn the_same_refusal_is_told_once_and_many_are_cut() {
    let field = Field::new();
    check(&field, WRITING, WRITES, "for i in 1 2 3; do echo x > /srv/x; done", &["write /srv/x"]);
    for which in WRITING {
        let outcome = field.shell(*which, WRITES, "for i in $(seq 40); do echo x > /srv/$i; done");
        assert_eq!(outcome.refused.len(), 16, "{which:?}");
    }
}
