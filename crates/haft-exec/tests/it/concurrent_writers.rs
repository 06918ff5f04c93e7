//! Many concurrent writers, in this process and in others.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use haft_core::{
    WriteFiles,
    files::{CurrentState, Disk, PlannedChange},
};

use crate::test_workspace::{TestWorkspace, again, open, variable};

const VARIABLE: &str = "HAFT_TEST_APPENDS_TO";

/// Appends lines to `shared/log` from many threads.
fn append(disk: &Arc<dyn Disk>, lines: Vec<String>) {
    thread::scope(|scope| {
        for line in lines {
            scope.spawn(move || append_line(disk, &line));
        }
    });
}

fn append_line(disk: &Arc<dyn Disk>, line: &str) {
    let changed = WriteFiles::unchecked(disk.clone()).change(
        &[PathBuf::from("shared/log")],
        &mut |targets| {
            let CurrentState::File(file) = &targets[0].current else { panic!("the log is a file") };
            let mut bytes = file.read_whole()?;
            bytes.extend(format!("{line}\n").bytes());
            Ok(vec![PlannedChange::Put { target: 0, bytes: bytes.into(), like: None }])
        },
    );
    changed.expect("each waits for its turn");
}

#[test]
fn appender() {
    if let Some(root) = variable(VARIABLE) {
        let own = std::process::id();
        append(&open(&root), (0..20).map(|number| format!("{own} {number}")).collect());
    }
}

#[test]
fn no_writer_loses_the_line_of_another() {
    let place = TestWorkspace::new();
    place.file("shared/log", "");
    let mut others: Vec<_> = (0..2)
        .map(|_| {
            again("concurrent_writers::appender", VARIABLE, &place.root)
                .spawn()
                .expect("this program")
        })
        .collect();
    append(&place.disk, (0..40).map(|number| format!("here {number}")).collect());
    for other in &mut others {
        assert!(other.wait().expect("spawned").success());
    }
    let mut lines: Vec<String> = place.content("shared/log").lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 80);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 80);
    place.assert_clean();
    assert!(!Path::new(&place.root).join("shared/.haft").exists());
}
