//! Tests of secrets on a real disk: stored, found, listed, replaced and removed, and the errors.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Barrier, thread};

use haft_core::ErrorKind;
use proptest::prelude::*;

use super::*;

const VALUE: &str = "hunter22-and-more";

/// A home directory.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join("state/haft").join(name)
    }

    fn vault(&self) -> Arc<StoreVault> {
        StoreVault::new(&self.at(""), Vec::new)
    }

    /// A home with a secret `A`.
    fn with_secret() -> Self {
        let home = Self::new();
        home.vault().set("A", VALUE, &[], Existing::Keep).expect("set");
        home
    }

    fn text(&self) -> String {
        fs::read_to_string(self.at("secrets.json")).expect("there")
    }

    fn names(&self) -> Vec<String> {
        self.vault().list().expect("whole").into_iter().map(|kept| kept.name).collect()
    }
}

fn value(vault: &StoreVault, name: &str) -> Option<String> {
    vault.find(name).expect("whole").map(|secret| secret.value)
}

fn with_passphrase() -> Vec<(OsString, OsString)> {
    vec![("HAFT_PASSPHRASE".into(), "correct horse".into())]
}

fn with_another() -> Vec<(OsString, OsString)> {
    vec![("HAFT_PASSPHRASE".into(), "battery staple".into())]
}

fn with_a_short_one() -> Vec<(OsString, OsString)> {
    vec![("HAFT_PASSPHRASE".into(), "short".into())]
}

#[track_caller]
fn check_error<T: std::fmt::Debug>(result: Result<T, ToolError>, kind: ErrorKind, word: &str) {
    let error = result.expect_err(word);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(word), "{error}");
    let said = format!("{error} {}", error.next_step());
    assert!(!said.contains(VALUE), "{said}");
}

#[test]
fn a_secret_is_kept_found_listed_and_removed() {
    let home = Home::new();
    let vault = home.vault();
    assert_eq!(value(&vault, "A"), None);
    let hosts = ["API.example.org".to_owned(), "*.example.com.".to_owned()];
    let kept = vault.set("A", &format!(" {VALUE}\n"), &hosts, Existing::Keep).expect("set");
    assert_eq!(kept.hosts, ["api.example.org", "*.example.com"]);
    let found = home.vault().find("A").expect("whole").expect("there");
    assert_eq!((found.value.as_str(), &found.hosts), (VALUE, &kept.hosts));
    assert_eq!(home.vault().list().expect("whole"), [kept]);
    vault.remove("A").expect("removed");
    assert_eq!(value(&vault, "A"), None);
    assert!(!home.at("secrets.json").exists(), "a machine without secrets has no file");
}

#[test]
fn the_file_holds_no_value_and_is_closed_to_others() {
    let home = Home::with_secret();
    assert!(!home.text().contains("hunter"), "{}", home.text());
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!home.text().contains(&hex));
    for (name, expected) in [("secrets.json", 0o600), ("secrets.key", 0o600), ("", 0o700)] {
        let mode = fs::metadata(home.at(name)).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{name}");
    }
    assert!(!format!("{:?}", home.vault()).contains("hunter"));
}

#[test]
fn reading_creates_nothing() {
    let home = Home::new();
    let vault = home.vault();
    assert_eq!((vault.version(), vault.known()), (0, Vec::new()));
    assert_eq!(vault.list().expect("whole"), []);
    check_error(vault.remove("A"), ErrorKind::NotFound, "there is no secret `A`");
    assert!(!home.0.path().join("state").exists());
}

#[test]
fn wrong_names_values_and_hosts_are_refused_and_nothing_is_made() {
    let home = Home::new();
    let vault = home.vault();
    let long = "x".repeat(65);
    for name in ["", "a-b", "a b", "é", "a\n", &long] {
        check_error(vault.set(name, VALUE, &[], Existing::Keep), ErrorKind::Input, "the name of a");
    }
    for (value, word) in [
        ("", "empty"),
        ("  \n", "empty"),
        ("12345", "shorter"),
        ("line one\nline two", "line break"),
        (&"x".repeat(40_000), "longer"),
    ] {
        check_error(vault.set("A", value, &[], Existing::Keep), ErrorKind::Input, word);
    }
    for host in ["", "https://a.example", "a.example:443", "a/b", "*.", "a.*", "*", ".a"] {
        let set = vault.set("A", VALUE, &[host.to_owned()], Existing::Keep);
        check_error(set, ErrorKind::Input, "is not a host");
    }
    assert!(!home.0.path().join("state").exists());
    vault.set("A", VALUE, &["::1".to_owned()], Existing::Keep).expect("an address is a host");
}

#[test]
fn an_existing_secret_stays_unless_it_is_to_be_replaced() {
    let home = Home::with_secret();
    let vault = home.vault();
    let again = vault.set("A", "another-value", &[], Existing::Keep);
    check_error(again, ErrorKind::Conflict, "already");
    assert_eq!(value(&vault, "A").as_deref(), Some(VALUE));
    vault.set("A", "another-value", &[], Existing::Replace).expect("set");
    assert_eq!(value(&vault, "A").as_deref(), Some("another-value"));
    assert_eq!(home.names(), ["A"]);
}

#[test]
fn an_unknown_secret_is_reported_with_the_nearest_name() {
    let home = Home::with_secret();
    home.vault().set("GH_TOKEN", VALUE, &[], Existing::Keep).expect("set");
    let error = home.vault().remove("GH_TOKN").expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.next_step().contains("GH_TOKEN"), "{}", error.next_step());
}

#[test]
fn another_process_is_seen_without_a_restart_and_what_was_known_stays_known() {
    let home = Home::new();
    let (here, there) = (home.vault(), home.vault());
    assert_eq!((here.version(), value(&here, "A")), (0, None));
    there.set("A", VALUE, &[], Existing::Keep).expect("set");
    assert_eq!(value(&here, "A").as_deref(), Some(VALUE), "asked for by name");
    let first = here.version();
    assert!(first > 0);
    there.set("A", "another-value", &[], Existing::Replace).expect("set");
    assert_eq!(value(&here, "A").as_deref(), Some("another-value"));
    assert!(here.version() > first);
    there.remove("A").expect("removed");
    assert_eq!(value(&here, "A"), None);
    let known = ["hunter22-and-more", "another-value"].map(|it| ("A".to_owned(), it.to_owned()));
    assert_eq!(here.known(), known, "texts with it may still exist");
}

#[test]
fn a_redactor_learns_new_secrets_by_itself() {
    let home = Home::new();
    let here = home.vault();
    assert_eq!(here.version(), 0);
    home.vault().set("A", VALUE, &[], Existing::Keep).expect("set");
    let begun = Instant::now();
    while here.version() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the file was not read again");
        thread::yield_now();
    }
    assert_eq!(here.known(), [("A".to_owned(), VALUE.to_owned())]);
}

#[test]
fn all_threads_wait_for_the_first_read() {
    let home = Home::with_secret();
    for _ in 0..50 {
        let vault = home.vault();
        let start = Barrier::new(4);
        let known = || {
            start.wait();
            (vault.version(), vault.known().len())
        };
        let known: Vec<(u64, usize)> = thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(known)).collect();
            all.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        assert_eq!(known, [(1, 1); 4]);
    }
}

#[test]
fn many_that_set_at_once_lose_nothing() {
    let home = Home::new();
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for number in 0..8 {
            let (home, start) = (&home, &start);
            scope.spawn(move || {
                start.wait();
                let name = format!("S{number}");
                home.vault().set(&name, VALUE, &[], Existing::Keep).expect("set");
            });
        }
    });
    let names: Vec<String> = (0..8).map(|number| format!("S{number}")).collect();
    assert_eq!(home.names(), names);
    let vault = home.vault();
    assert!(names.iter().all(|name| value(&vault, name).as_deref() == Some(VALUE)));
}

#[test]
fn of_many_that_set_the_same_one_wins_and_the_others_fail() {
    let home = Home::new();
    let start = Barrier::new(6);
    let set = |number: usize| {
        start.wait();
        home.vault().set("A", &format!("value-{number}"), &[], Existing::Keep)
    };
    let done: Vec<_> = thread::scope(|scope| {
        let set = &set;
        let all: Vec<_> = (0..6).map(|number| scope.spawn(move || set(number))).collect();
        all.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    let winner = done.iter().position(Result::is_ok).expect("one");
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 1);
    assert_eq!(value(&home.vault(), "A"), Some(format!("value-{winner}")));
}

#[test]
fn drafts_of_killed_processes_are_ignored_and_removed() {
    let home = Home::with_secret();
    fs::write(home.at("secrets.new-99999"), "{\"version\":1,\"ke").expect("written");
    assert_eq!(value(&home.vault(), "A").as_deref(), Some(VALUE));
    home.vault().set("B", VALUE, &[], Existing::Keep).expect("set");
    assert!(!home.at("secrets.new-99999").exists());
    assert_eq!(home.names(), ["A", "B"]);
}

#[test]
fn a_damaged_file_is_reported_and_left_as_it_is() {
    let text = Home::with_secret().text();
    let cut = text.chars().take(text.len() / 2).collect::<String>();
    let other = text.replace("\"secrets\"", "\"secret\"");
    for damaged in ["", "{}", "[]", "null", &cut, &other, "{\"version\":\"1\"}"] {
        let home = Home::with_secret();
        fs::write(home.at("secrets.json"), damaged).expect("written");
        let vault = home.vault();
        check_error(vault.list(), ErrorKind::Unavailable, "damaged");
        check_error(vault.find("A"), ErrorKind::Unavailable, "damaged");
        let set = vault.set("B", VALUE, &[], Existing::Replace);
        check_error(set, ErrorKind::Unavailable, "damaged");
        check_error(vault.remove("A"), ErrorKind::Unavailable, "damaged");
        assert_eq!(vault.version(), 0, "redaction does not fail");
        assert_eq!(home.text(), damaged);
    }
}

#[test]
fn a_file_of_a_later_version_is_reported_and_left_as_it_is() {
    let home = Home::with_secret();
    let later = "{\"version\": 2, \"vaults\": []}";
    fs::write(home.at("secrets.json"), later).expect("written");
    check_error(home.vault().find("A"), ErrorKind::Unsupported, "version 2");
    let set = home.vault().set("B", VALUE, &[], Existing::Replace);
    check_error(set, ErrorKind::Unsupported, "version 2");
    check_error(home.vault().remove("A"), ErrorKind::Unsupported, "version 2");
    assert_eq!(home.text(), later);
}

#[test]
fn an_altered_entry_does_not_open_and_can_be_removed() {
    let home = Home::new();
    let hosts = ["a.example".to_owned()];
    home.vault().set("A", VALUE, &hosts, Existing::Keep).expect("set");
    home.vault().set("B", "value-of-b", &[], Existing::Keep).expect("set");
    let text = home.text();
    for (part, by) in [("a.example", "b.example"), ("\"name\": \"A\"", "\"name\": \"C\"")] {
        fs::write(home.at("secrets.json"), text.replace(part, by)).expect("written");
        check_error(home.vault().find("B"), ErrorKind::Unavailable, "damaged or was modified");
        let set = home.vault().set("D", VALUE, &[], Existing::Keep);
        check_error(set, ErrorKind::Unavailable, "damaged or was modified");
    }
    home.vault().remove("C").expect("needs no key");
    assert_eq!(value(&home.vault(), "B").as_deref(), Some("value-of-b"));
}

#[test]
fn a_key_that_is_open_to_others_gone_or_another_one_is_refused() {
    let home = Home::with_secret();
    let key = home.at("secrets.key");
    for mode in [0o644, 0o640, 0o604, 0o620] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("ours");
        let found = home.vault().find("A");
        let error = found.as_ref().expect_err("open to others");
        assert!(error.next_step().contains("chmod 600"), "{}", error.next_step());
        check_error(found, ErrorKind::Denied, "accessible to other users");
        let set = home.vault().set("B", VALUE, &[], Existing::Keep);
        check_error(set, ErrorKind::Denied, "accessible to other users");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(value(&home.vault(), "A").as_deref(), Some(VALUE));
    fs::write(&key, [7; 32]).expect("written");
    check_error(home.vault().find("A"), ErrorKind::Unavailable, "does not match it");
    fs::write(&key, [7; 31]).expect("written");
    check_error(home.vault().find("A"), ErrorKind::Unavailable, "32 bytes");
    fs::remove_file(&key).expect("ours");
    check_error(home.vault().find("A"), ErrorKind::Unavailable, "is missing");
    let set = home.vault().set("B", VALUE, &[], Existing::Keep);
    check_error(set, ErrorKind::Unavailable, "is missing");
    assert!(!key.exists(), "no other key is made beside a file that it would not open");
    assert_eq!(home.names(), ["A"]);
}

#[test]
fn a_passphrase_opens_what_it_closed_and_leaves_no_key_behind() {
    let home = Home::new();
    let with =
        |variables: fn() -> Vec<(OsString, OsString)>| StoreVault::new(&home.at(""), variables);
    let short = with(with_a_short_one).set("A", VALUE, &[], Existing::Keep);
    check_error(short, ErrorKind::Input, "shorter than 8");
    with(with_passphrase).set("A", VALUE, &[], Existing::Keep).expect("set");
    assert!(!home.at("secrets.key").exists());
    assert_eq!(value(&with(with_passphrase), "A").as_deref(), Some(VALUE));
    check_error(with(with_another).find("A"), ErrorKind::Denied, "does not open");
    let set = with(with_another).set("B", VALUE, &[], Existing::Keep);
    check_error(set, ErrorKind::Denied, "does not open");
    check_error(with(Vec::new).find("A"), ErrorKind::Unavailable, "is not set");
    assert_eq!(with(Vec::new).list().expect("needs no key").len(), 1);
    let endless = home.text().replace("600000", "4000000000");
    fs::write(home.at("secrets.json"), endless).expect("written");
    check_error(with(with_passphrase).find("A"), ErrorKind::Unavailable, "damaged");
}

#[test]
fn without_a_keyring_the_key_is_beside_the_file_unless_a_keyring_is_required() {
    fn nowhere() -> Vec<(OsString, OsString)> {
        vec![("DBUS_SESSION_BUS_ADDRESS".into(), "unix:path=/nonexistent/bus".into())]
    }
    let home = Home::new();
    for variables in [Vec::new, nowhere] {
        let vault = StoreVault::new(&home.at(""), variables);
        let set = vault.set_with("A", VALUE, &[], Existing::Keep, KeyWanted::Keyring);
        check_error(set, ErrorKind::Unavailable, "no keyring is available");
        assert!(!home.at("secrets.json").exists() && !home.at("secrets.key").exists());
    }
    let vault = StoreVault::new(&home.at(""), nowhere);
    let kept = vault.set("A", VALUE, &[], Existing::Keep).expect("set");
    assert_eq!(kept.place, "file, its key beside it");
    let moved = home.text().replace("\"in\": \"file\"", "\"in\": \"keyring\"");
    fs::write(home.at("secrets.json"), moved).expect("written");
    check_error(home.vault().find("A"), ErrorKind::Unavailable, "no keyring is available");
    assert_eq!(home.vault().version(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any byte changed, nothing panics, no wrong value is returned, and the file stays.
    #[test]
    fn altered_bytes_give_the_value_or_an_error(at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let home = Home::with_secret();
        let mut bytes = home.text().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        fs::write(home.at("secrets.json"), &bytes).expect("written");
        if let Ok(Some(secret)) = home.vault().find("A") {
            prop_assert_eq!(secret.value, VALUE);
        }
        if home.vault().set("B", "value-of-b", &[], Existing::Keep).is_err() {
            prop_assert_eq!(fs::read(home.at("secrets.json")).expect("there"), bytes);
        }
    }
}
