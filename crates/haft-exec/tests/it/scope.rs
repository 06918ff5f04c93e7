//! No path leads out of the workspace, whatever is in it and whatever another process replaces.

use std::{
    fs,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use haft_core::{ErrorKind, ReadFiles, files::FileKind};
use haft_exec::Workspace;
use rustix::fs::{CWD, RenameFlags};

use crate::test_workspace::{
    SECRET, TestWorkspace, assert_kind, is_directory, is_run_with_own_mounts, mount, open,
};

/// Every operation must fail in the same way, and change nothing.
#[track_caller]
fn check_closed(place: &TestWorkspace, path: &str, kind: ErrorKind) {
    let before = place.snapshot();
    assert_kind(place.read(path), kind, "");
    assert_kind(place.files().entries(Path::new(path)), kind, "");
    assert_kind(place.put(path, "x"), kind, "");
    assert_kind(place.put(format!("{path}/new/file"), "x"), kind, "");
    assert_kind(place.writes().make_directory(&Path::new(path).join("new")), kind, "");
    assert_kind(place.files().metadata(&Path::new(path).join("x")), kind, "");
    assert_kind(place.writes().remove(&Path::new(path).join("secret"), true), kind, "");
    place.file("inner", "x");
    let to = Path::new(path).join("moved");
    assert_kind(place.writes().rename(Path::new("inner"), &to, true), kind, "");
    fs::remove_file(place.root.join("inner")).expect("made above");
    assert!(place.snapshot() == before, "{path} changed something");
}

#[test]
fn paths_that_lead_out_are_denied() {
    let place = TestWorkspace::new();
    let handle = fs::File::open(&place.outside).expect("a directory");
    let deleted = fs::File::create(place.outside.join("gone")).expect("new");
    fs::remove_file(place.outside.join("gone")).expect("just made");
    let (outside, process) = (place.outside.display(), std::process::id());
    place.file("d/e/f", "inside");
    place.link("absolute", &place.outside);
    place.link("relative", "../outside");
    place.link("d/e/deep", "../../../outside");
    place.link("file", place.outside.join("secret"));
    place.link("one", "two");
    place.link("two", "d/three");
    place.link("d/three", "../relative");
    place.link("dangling", place.outside.join("missing"));
    place.link("root", format!("/proc/self/root{outside}"));
    place.link("cwd", "/proc/self/cwd");
    place.link("fd", format!("/proc/{process}/fd/{}", handle.as_raw_fd()));
    place.link("own_fd", format!("/proc/self/fd/{}", handle.as_raw_fd()));
    place.link("deleted_fd", format!("/proc/self/fd/{}", deleted.as_raw_fd()));
    place.link("proc", "/proc/self");
    for path in [
        "..",
        "../outside",
        "d/../../outside",
        "d/e/../../../outside/secret",
        "/",
        "/etc",
        "absolute",
        "absolute/secret",
        "relative/secret",
        "d/e/deep",
        "d/e/../e/deep/secret",
        "file",
        "one",
        "one/secret",
        "dangling",
        "dangling/below",
        "root",
        "root/secret",
        "cwd",
        "fd",
        "fd/secret",
        "own_fd",
        "deleted_fd",
        "proc/root",
        "proc/cwd/x",
        "/proc/self/root",
        "absolute/../outside/secret",
    ] {
        check_closed(&place, path, ErrorKind::Denied);
    }
    assert_kind(place.read("one/secret"), ErrorKind::Denied, &format!("{outside}/secret"));
    check_closed(&place, &place.outside.join("secret").display().to_string(), ErrorKind::Denied);
}

#[test]
fn circles_of_links_end() {
    let place = TestWorkspace::new();
    place.link("self", "self");
    place.link("a", "b");
    place.link("b", "d/../a");
    place.link("grows", "grows/x");
    place.link("absolute", place.root.join("absolute"));
    let process_settings = place.root.parent().expect("not the top").join("process_settings");
    std::os::unix::fs::symlink(&place.root, &process_settings).expect("new");
    place.link("by_alias", process_settings.join("by_alias"));
    for path in ["self", "a", "b/x", "grows", "absolute", "by_alias"] {
        check_closed(&place, path, ErrorKind::Input);
    }
    let facts = place.files().metadata(Path::new("by_alias")).expect("the link itself");
    assert_eq!(facts.kind, FileKind::Link);
}

#[test]
fn links_inside_are_followed() {
    let place = TestWorkspace::new();
    place.file("d/e/file", "inside");
    place.link("to_d", "d");
    place.link("d/up", "..");
    place.link("absolute", place.root.join("d/e"));
    place.link("out_and_in", place.outside.join("../inside/d"));
    place.link("through_proc", format!("/proc/self/root{}", place.root.join("d").display()));
    for path in [
        "to_d/e/file",
        "d/up/d/up/to_d/e/file",
        "absolute/file",
        "absolute/../e/file",
        "out_and_in/e/file",
        "through_proc/e/file",
        "../inside/d/e/file",
        "./d//e/./file",
        "d/missing/../e/file",
    ] {
        assert_eq!(place.read(path).expect(path), "inside");
        let file = place.files().open_file(Path::new(path)).expect(path);
        assert_eq!(file.metadata().path, Path::new("d/e/file"), "{path}");
    }
    assert!(is_directory(&place.files().open(Path::new("")).expect("the workspace")));
}

#[test]
fn a_workspace_may_be_called_by_a_link() {
    let place = TestWorkspace::new();
    place.file("d/file", "inside");
    place.link("link", "d/file");
    place.link("dangling", "nowhere");
    let alias = place.outside.join("alias");
    std::os::unix::fs::symlink(&place.root, &alias).expect("new");
    let through = place.with(open(&alias));
    for base in [&alias, &through.root] {
        assert_eq!(through.read(base.join("d/file")).expect("inside"), "inside");
        through.put(base.join("new/file"), "new").expect("inside");
        assert_eq!(through.content("new/file"), "new");
        let path = base.join("link");
        assert_eq!(through.files().metadata(&path).expect("a link").kind, FileKind::Link);
        assert_eq!(through.files().metadata(base).expect("the root").path, Path::new("."));
        let dangling = through.read(base.join("dangling/x"));
        assert_kind(dangling, ErrorKind::NotFound, "nowhere/x");
    }
    through.writes().remove(&alias.join("link"), false).expect("the link itself");
    assert_eq!(through.content("d/file"), "inside");
    assert_kind(through.read(through.outside.join("secret")), ErrorKind::Denied, "secret");
}

#[test]
fn a_second_root_is_open_and_leads_no_further() {
    let place = TestWorkspace::new();
    place.link("other", place.outside.join("lib"));
    place.link("named", "@lib/file");
    fs::create_dir(place.outside.join("lib")).expect("new");
    fs::write(place.outside.join("lib/file"), "lib").expect("new");
    std::os::unix::fs::symlink("../secret", place.outside.join("lib/out")).expect("new");
    std::os::unix::fs::symlink(&place.root, place.outside.join("lib/back")).expect("new");
    let mut disk = Workspace::open(&place.root).expect("a directory");
    disk.add_root("lib", &place.outside.join("lib")).expect("a directory");
    let place = place.with(Arc::new(disk));
    let absolute = place.outside.join("lib/file").display().to_string();
    for path in ["@lib/file", "other/file", &*absolute, "@lib/back/other/file"] {
        assert_eq!(place.read(path).expect(path), "lib");
        let file = place.files().open_file(Path::new(path)).expect(path);
        assert_eq!(file.metadata().path, Path::new("@lib/file"));
    }
    for path in ["@lib/out", "@lib/../secret", "other/../secret", "other/out"] {
        check_closed(&place, path, ErrorKind::Denied);
    }
    // In the target of a link, `@lib` is an ordinary name.
    assert_kind(place.read("named"), ErrorKind::NotFound, "");
    let twice = place.put_all(&[("@lib/file", "a"), ("other/file", "b")], || {});
    assert_kind(twice, ErrorKind::Input, "twice");
    place.put("other/file", "new").expect("open");
    assert_eq!(place.read("@lib/file").expect("there"), "new");
    place.file("f", "x");
    place.writes().rename(Path::new("f"), Path::new("@lib/sub/f"), false).expect("one disk");
    assert_eq!(fs::read_to_string(place.outside.join("lib/sub/f")).expect("moved"), "x");
}

#[test]
fn a_mount_inside_is_not_entered() {
    if is_run_with_own_mounts("scope::a_mount_inside_is_not_entered") {
        return;
    }
    let place = TestWorkspace::new();
    place.file("d/m/below", "covered");
    place.file("d/file", "covered");
    let outside = place.outside.display().to_string();
    mount(&["--bind", &outside, &place.root.join("d/m").display().to_string()]);
    mount(&[
        "--bind",
        &place.outside.join("secret").display().to_string(),
        &place.root.join("d/file").display().to_string(),
    ]);
    for path in ["d/m", "d/m/secret", "d/m/new", "d/file"] {
        assert_kind(place.read(path), ErrorKind::Denied, "d/");
        assert_kind(place.files().metadata(Path::new(path)), ErrorKind::Denied, "d/");
    }
    assert_kind(place.put("d/m/secret", "x"), ErrorKind::Denied, "d/m/secret");
    let seen = place.writes().change(&["d/file".into()], &mut |_| panic!("it is not shown"));
    assert_kind(seen, ErrorKind::Denied, "d/file");
    assert_kind(place.writes().remove(Path::new("d/m"), true), ErrorKind::Denied, "d/m");
    assert_kind(place.writes().remove(Path::new("d"), true), ErrorKind::Denied, "d/m");
    assert_eq!(fs::read_to_string(place.outside.join("secret")).expect("there"), SECRET);
}

/// While `work` runs, two names are swapped repeatedly.
fn while_swapping(one: PathBuf, other: PathBuf, work: impl FnOnce()) {
    let ends = Arc::new(AtomicBool::new(false));
    let told = ends.clone();
    let swapping = thread::spawn(move || {
        let mut swaps = 0_u64;
        while !told.load(Ordering::Relaxed) {
            rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE)
                .expect("both are there");
            swaps += 1;
        }
        swaps
    });
    work();
    ends.store(true, Ordering::Relaxed);
    assert!(swapping.join().expect("no panic") > 0);
}

fn check_race(place: &TestWorkspace, one: &str, other: &str) {
    while_swapping(place.root.join(one), place.root.join(other), || {
        let mut read = 0;
        for _ in 0..5_000 {
            match place.read("dir/file") {
                Ok(content) => {
                    assert_ne!(content, SECRET);
                    read += 1;
                }
                Err(error) => {
                    let kinds = [ErrorKind::Denied, ErrorKind::Conflict];
                    assert!(kinds.contains(&error.kind()), "{error:?}");
                }
            }
        }
        assert!(read > 0, "it is inside half of the time");
        for number in 0..1_000 {
            if let Err(error) = place.put("dir/file", &format!("inside {number}")) {
                let kinds = [ErrorKind::Denied, ErrorKind::Conflict];
                assert!(kinds.contains(&error.kind()), "{error:?}");
            }
        }
    });
    let outside: Vec<_> = fs::read_dir(&place.outside).expect("a directory").collect();
    assert_eq!(outside.len(), 2, "{outside:?}");
    for name in ["secret", "file"] {
        assert_eq!(fs::read_to_string(place.outside.join(name)).expect("there"), SECRET);
    }
    place.assert_clean();
}

#[test]
fn a_directory_that_is_swapped_for_a_link_leads_nowhere_else() {
    let place = TestWorkspace::new();
    fs::write(place.outside.join("file"), SECRET).expect("new");
    place.file("dir/file", "inside");
    place.link("link", &place.outside);
    check_race(&place, "dir", "link");
}

#[test]
fn a_file_that_is_swapped_for_a_link_leads_nowhere_else() {
    let place = TestWorkspace::new();
    fs::write(place.outside.join("file"), SECRET).expect("new");
    place.file("dir/file", "inside");
    place.link("dir/link", place.outside.join("secret"));
    check_race(&place, "dir/file", "dir/link");
}

#[test]
fn a_workspace_that_is_gone_is_an_error_and_no_endless_search() {
    let place = TestWorkspace::new();
    fs::remove_dir_all(&place.root).expect("there");
    assert_kind(place.read("a/b"), ErrorKind::NotFound, "a/b");
    assert!(place.put("a", "x").is_err());
    assert!(ReadFiles::unchecked(place.disk.clone()).metadata(Path::new("x")).is_err());
}

#[test]
fn odd_names_are_names() {
    use std::os::unix::ffi::OsStrExt;
    let place = TestWorkspace::new();
    let long = "n".repeat(255);
    for name in
        [&b"\xff\xfe"[..], b"new\nline", b"-rf", b" ", b"@x", b"./~", b"a:b", long.as_bytes()]
    {
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        place.put(path, "odd").expect("a name");
        place.put(path, "odder").expect("a name");
        assert_eq!(place.read(path).expect("just written"), "odder");
        assert!(place.files().metadata(path).is_ok());
        place.writes().rename(path, Path::new("plain"), false).expect("a name");
        place.writes().rename(Path::new("plain"), path, false).expect("a name");
    }
    assert_eq!(place.files().entries(Path::new(".")).expect("the root").entries.len(), 9);
    for name in ["n".repeat(256), "n/".repeat(2_049), "n/".repeat(40_000), "a\0b".into()] {
        assert_kind(place.read(&name), ErrorKind::Input, "");
        assert_kind(place.put(&name, "x"), ErrorKind::Input, "");
        assert_kind(place.writes().make_directory(Path::new(&name)), ErrorKind::Input, "");
    }
    // A path that a shell would have expanded must not create a folder here.
    for name in ["~", "~/x"] {
        assert_kind(place.put(name, "x"), ErrorKind::Input, "`~` is not read as a home");
    }
    let half = PathBuf::from("new").join("n".repeat(256));
    assert_kind(place.writes().make_directory(&half), ErrorKind::Input, "too long");
    assert_kind(place.put(half.join("x"), "x"), ErrorKind::Input, "too long");
    assert!(!place.root.join("new").exists(), "what was made for it is gone again");
}
