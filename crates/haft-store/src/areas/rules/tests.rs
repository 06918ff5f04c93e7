//! Tests of saved rules in real files, read by several processes.

use haft_core::ErrorKind;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::StoreAddress;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn store(&self, workspace: &str) -> PathBuf {
        self.folder.path().join(workspace).join(".haft/haft.db")
    }

    /// The rules as another process sees them.
    fn rules(&self, workspace: &str) -> StoreRules {
        let location = StoreLocation::new(StoreAddress::Sqlite(self.store(workspace)));
        let root = self.folder.path();
        StoreRules::new(location, &root.join(workspace), &root.join("state/haft"))
    }
}

fn remember(rule: &str, scope: Scope, expires_ms: Option<u64>) -> Remember {
    Remember { rules: vec![rule.to_owned()], scope, expires_ms }
}

async fn save(rules: &StoreRules, rule: &str, scope: Scope) -> SavedRule {
    let kept = rules.save("s", "Ann", &remember(rule, scope, None)).await;
    kept.expect("it is kept").remove(0)
}

async fn texts(rules: &StoreRules, session: &str) -> Vec<String> {
    let rules = rules.active(session).await.expect("they can be read");
    rules.into_iter().map(|rule| rule.text.to_string()).collect()
}

#[tokio::test]
async fn a_rule_reaches_as_far_as_its_scope() {
    let fixture = Fixture::new();
    let here = fixture.rules("here");
    save(&here, "bash(a *)", Scope::Session).await;
    save(&here, "bash(b *)", Scope::Project).await;
    save(&here, "bash(c *)", Scope::User).await;
    let (again, there) = (fixture.rules("here"), fixture.rules("there"));
    assert_eq!(texts(&again, "s").await, ["bash(a *)", "bash(b *)", "bash(c *)"]);
    assert_eq!(texts(&again, "other").await, ["bash(b *)", "bash(c *)"]);
    assert_eq!(texts(&there, "s").await, ["bash(c *)"]);
}

#[tokio::test]
async fn reading_rules_creates_no_store() {
    let fixture = Fixture::new();
    let rules = fixture.rules("here");
    assert!(texts(&rules, "s").await.is_empty());
    assert!(rules.list().await.expect("nothing").is_empty());
    assert_eq!(rules.revoke("x").await.expect_err("nothing").kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(fixture.folder.path()).expect("there").count(), 0);
}

#[tokio::test]
async fn changes_of_another_process_count_from_the_next_call_on() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.rules("here"), fixture.rules("here"));
    assert!(texts(&one, "s").await.is_empty());
    let saved = save(&two, "bash(a *)", Scope::Project).await;
    assert_eq!(texts(&one, "s").await, ["bash(a *)"]);
    assert_eq!(one.list().await.expect("read"), std::slice::from_ref(&saved));
    assert_eq!(two.revoke(&saved.id).await.expect("it is there"), saved);
    assert!(texts(&one, "s").await.is_empty());
    assert!(texts(&two, "s").await.is_empty());
}

#[tokio::test]
async fn rules_are_cached_until_the_store_changes() {
    let fixture = Fixture::new();
    let rules = fixture.rules("here");
    save(&rules, "bash(a *)", Scope::Project).await;
    texts(&rules, "s").await;
    let first = rules.project.cache().clone().expect("kept").rules;
    texts(&rules, "s").await;
    let second = rules.project.cache().clone().expect("kept").rules;
    assert!(Arc::ptr_eq(&first, &second), "it was read twice");
}

#[tokio::test]
async fn an_expired_rule_is_removed() {
    let fixture = Fixture::new();
    let rules = fixture.rules("here");
    let lapsed = remember("bash(a *)", Scope::Project, Some(1));
    let saved = rules.save("s", "Ann", &lapsed).await.expect("kept");
    assert!(texts(&rules, "s").await.is_empty());
    assert!(rules.list().await.expect("read").is_empty());
    rules.revoke(&saved[0].id).await.expect_err("it is gone already");
    save(&rules, "bash(b *)", Scope::Project).await;
    assert_eq!(rules.project.rules(&rules.key).await.expect("read").expect("there").rules.len(), 1);
}

#[tokio::test]
async fn one_invalid_rule_saves_none() {
    let fixture = Fixture::new();
    let rules = fixture.rules("here");
    let mut both = remember("bash(a *)", Scope::Project, None);
    both.rules.push("bash(a".to_owned());
    rules.save("s", "Ann", &both).await.expect_err("the second is not a rule");
    assert!(!fixture.store("here").exists());
}

#[tokio::test]
async fn a_rule_that_came_with_the_folder_grants_nothing_and_is_reported_once() {
    let fixture = Fixture::new();
    save(&fixture.rules("mine"), "bash(a *)", Scope::Project).await;
    // Another user's store, or one's own from another directory.
    std::fs::create_dir_all(fixture.folder.path().join("cloned/.haft")).expect("made");
    std::fs::copy(fixture.store("mine"), fixture.store("cloned")).expect("copied");
    for end in ["-wal", "-shm"] {
        let name = |workspace| fixture.store(workspace).with_file_name(format!("haft.db{end}"));
        std::fs::copy(name("mine"), name("cloned")).expect("copied");
    }
    let cloned = fixture.folder.path().join("cloned");
    let move_over = format!("UPDATE rules SET workspace = '{}'", cloned.display());
    Connection::open(fixture.store("cloned"))
        .expect("opens")
        .execute_batch(&move_over)
        .expect("done");
    let rules = fixture.rules("cloned");
    let error = rules.active("s").await.expect_err("it is reported");
    assert!(error.message().contains("1 saved rule was not saved by you"), "{error}");
    assert!(texts(&rules, "s").await.is_empty());
    assert_eq!(texts(&fixture.rules("mine"), "s").await, ["bash(a *)"]);
}

#[tokio::test]
async fn a_modified_rule_does_not_count() {
    for sql in [
        "UPDATE rules SET rule = 'bash(*)'",
        "UPDATE rules SET expires_ms = NULL",
        "UPDATE rules SET scope = 'project'",
        "UPDATE rules SET session = 'other'",
        "UPDATE rules SET seal = ''",
    ] {
        let fixture = Fixture::new();
        let rules = fixture.rules("here");
        let kept = remember("bash(a *)", Scope::Session, Some(u64::MAX >> 1));
        rules.save("s", "Ann", &kept).await.expect("kept");
        assert_eq!(texts(&rules, "s").await.len(), 1);
        Connection::open(fixture.store("here")).expect("opens").execute_batch(sql).expect(sql);
        rules.active("s").await.expect_err(sql);
        assert!(texts(&rules, "s").await.is_empty(), "{sql}");
        assert!(texts(&rules, "other").await.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_reported_once_and_the_other_still_counts() {
    let fixture = Fixture::new();
    save(&fixture.rules("here"), "bash(c *)", Scope::User).await;
    std::fs::create_dir_all(fixture.store("here")).expect("something in the way");
    let rules = fixture.rules("here");
    let error = rules.active("s").await.expect_err("it is reported");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(texts(&rules, "s").await, ["bash(c *)"]);
}

#[tokio::test]
async fn the_key_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let rules = fixture.rules("here");
    save(&rules, "bash(a *)", Scope::Project).await;
    let mode = std::fs::metadata(&rules.key).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(&rules.key, "short").expect("written");
    let again = fixture.rules("here");
    let error = again.active("s").await.expect_err("it is reported");
    assert!(error.message().contains("not 32 bytes"), "{error}");
}
