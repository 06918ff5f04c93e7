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

/// The plan for a disk that holds these files.
fn planned(changes: &[JournalChange], disk: &[(&str, &str)]) -> Plan {
    let mut look = |path: &Path| {
        let found = disk.iter().find(|(name, _)| Path::new(name) == path);
        Ok(found.map_or(PathState::Missing, |(_, content)| file(content)))
    };
    plan(changes, &mut look).expect("the disk can be looked at")
}

#[track_caller]
fn check(changes: &[JournalChange], disk: &[(&str, &str)], then: &[(&str, &str)], idle: &[u64]) {
    let plan = planned(changes, disk);
    assert_eq!(plan.conflicts, []);
    let steps = plan.deeds.iter().filter_map(|deed| match deed {
        Deed::Files(steps) => Some(steps),
        _ => None,
    });
    let found: Vec<(PathBuf, PathState)> =
        steps.flatten().map(|step| (step.path.clone(), step.then.clone())).collect();
    let then: Vec<(PathBuf, PathState)> =
        then.iter().map(|(path, content)| (path.into(), file(content))).collect();
    assert_eq!((found, &*plan.idle), (then, idle));
}

#[test]
fn several_changes_of_a_file_become_one_step() {
    let changes =
        [change(2, vec![edit(2, "a", "2", "3")]), change(1, vec![edit(1, "a", "1", "2")])];
    check(&changes, &[("a", "3")], &[("a", "1")], &[]);
}

#[test]
fn a_change_that_never_came_to_be_is_passed_over() {
    let changes = [
        change(3, vec![edit(3, "a", "2", "4")]),
        change(2, vec![edit(2, "a", "2", "3")]),
        change(1, vec![edit(1, "a", "1", "2")]),
    ];
    check(&changes, &[("a", "4")], &[("a", "1")], &[2]);
    check(&changes, &[("a", "2")], &[("a", "1")], &[3, 2]);
}

#[test]
fn a_change_of_somebody_else_in_between_is_a_conflict() {
    let changes =
        [change(2, vec![edit(2, "a", "9", "3")]), change(1, vec![edit(1, "a", "1", "2")])];
    let plan = planned(&changes, &[("a", "3")]);
    assert_eq!(plan.conflicts.len(), 1);
    assert!(plan.conflicts[0].why.contains("somebody else"), "{:?}", plan.conflicts);
}

#[test]
fn what_happened_before_a_move_is_looked_for_where_it_is_now() {
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
    let told: Vec<String> = plan
        .deeds
        .iter()
        .map(|deed| match deed {
            Deed::Files(steps) => {
                format!("{} {}", steps[0].path.display(), steps[0].then == file("2"))
            }
            Deed::Move { from, to, .. } => format!("{} to {}", from.display(), to.display()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["to true", "to to from", "from false"]);
    // With something in its old place it cannot go back.
    assert_eq!(planned(&changes, &[("to", "3"), ("from", "x")]).conflicts.len(), 2);
}

#[test]
fn permissions_that_somebody_changed_since_stay() {
    let with = |mode| PathState::File { hash: None, mode, size: 0 };
    assert_eq!(with_mode_of(&with(0o600), &with(0o644), &with(0o644)), with(0o600));
    assert_eq!(with_mode_of(&with(0o600), &with(0o644), &with(0o755)), with(0o755));
}
