use haft_core::ContentHash;

use super::*;

fn file(content: &str) -> PathState {
    let hash = Some(ContentHash::of(content.as_bytes()));
    PathState::File { hash, mode: 0o644, size: content.len() as u64 }
}

fn change(number: u64, entries: Vec<JournalEntry>) -> JournalChange {
    let mut change = JournalChange::new(number, "c", "s", "edit", 0);
    change.entries = entries;
    change
}

fn edit(id: u64, path: &str, from: &str, to: &str) -> JournalEntry {
    JournalEntry::new(id, path.into(), file(from), file(to))
}

/// Plans the revert of changes for a disk with these files.
fn planned(changes: &[JournalChange], disk: &[(&str, &str)]) -> UndoPlan {
    let mut read_state = |path: &Path| {
        let found = disk.iter().find(|(name, _)| Path::new(name) == path);
        Ok(found.map_or(PathState::Missing, |(_, content)| file(content)))
    };
    plan(changes, &mut read_state).expect("the disk is readable")
}

#[track_caller]
fn check(changes: &[JournalChange], disk: &[(&str, &str)], then: &[(&str, &str)], idle: &[u64]) {
    let plan = planned(changes, disk);
    assert_eq!(plan.conflicts, []);
    let restores = plan.steps.iter().filter_map(|step| match step {
        PlanStep::RestoreFiles(restores) => Some(restores),
        _ => None,
    });
    let found: Vec<(PathBuf, PathState)> =
        restores.flatten().map(|restore| (restore.path.clone(), restore.then.clone())).collect();
    let then: Vec<(PathBuf, PathState)> =
        then.iter().map(|(path, content)| (path.into(), file(content))).collect();
    assert_eq!((found, &*plan.idle), (then, idle));
}

#[test]
fn several_changes_of_a_file_become_one_restore() {
    let changes =
        [change(2, vec![edit(2, "a", "2", "3")]), change(1, vec![edit(1, "a", "1", "2")])];
    check(&changes, &[("a", "3")], &[("a", "1")], &[]);
}

#[test]
fn a_change_that_was_never_made_is_skipped() {
    let changes = [
        change(3, vec![edit(3, "a", "2", "4")]),
        change(2, vec![edit(2, "a", "2", "3")]),
        change(1, vec![edit(1, "a", "1", "2")]),
    ];
    check(&changes, &[("a", "4")], &[("a", "1")], &[2]);
    check(&changes, &[("a", "2")], &[("a", "1")], &[3, 2]);
}

#[test]
fn a_foreign_change_in_between_is_a_conflict() {
    let changes =
        [change(2, vec![edit(2, "a", "9", "3")]), change(1, vec![edit(1, "a", "1", "2")])];
    let plan = planned(&changes, &[("a", "3")]);
    assert_eq!(plan.conflicts.len(), 1);
    assert!(plan.conflicts[0].why.contains("another process"), "{:?}", plan.conflicts);
}

#[test]
fn changes_before_a_move_are_read_at_the_current_path() {
    let mut moved = JournalEntry::new(
        2,
        "to".into(),
        PathState::Missing,
        PathState::File { hash: None, mode: 0o644, size: 1 },
    );
    moved.moved_from = Some("from".into());
    let changes = [
        change(3, vec![edit(3, "to", "2", "3")]),
        change(2, vec![moved]),
        change(1, vec![edit(1, "from", "1", "2")]),
    ];
    let plan = planned(&changes, &[("to", "3")]);
    assert_eq!(plan.conflicts, []);
    let steps: Vec<String> = plan
        .steps
        .iter()
        .map(|step| match step {
            PlanStep::RestoreFiles(restores) => {
                format!("{} {}", restores[0].path.display(), restores[0].then == file("2"))
            }
            PlanStep::Move { from, to, .. } => format!("{} to {}", from.display(), to.display()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(steps, ["to true", "to to from", "from false"]);
    // With another file at the old path it cannot be moved back.
    assert_eq!(planned(&changes, &[("to", "3"), ("from", "x")]).conflicts.len(), 2);
}

#[test]
fn permissions_that_were_changed_since_are_kept() {
    let with = |mode| PathState::File { hash: None, mode, size: 0 };
    assert_eq!(with_mode_of(&with(0o600), &with(0o644), &with(0o644)), with(0o600));
    assert_eq!(with_mode_of(&with(0o600), &with(0o644), &with(0o755)), with(0o755));
}
