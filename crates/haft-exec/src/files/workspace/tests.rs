//! Tests that need access to internals: the fallbacks for other kernels and file systems, and
//! timeouts.

use std::{
    fs,
    os::{fd::AsFd, unix::fs::symlink},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use haft_core::{ReadFiles, WriteFiles, files::PlannedChange};
use proptest::prelude::*;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::*;

const SECRET: &str = "the secret outside";

struct Place {
    _base: TempDir,
    root: PathBuf,
    outside: PathBuf,
    alias: PathBuf,
}

impl Place {
    /// Creates a workspace, a directory outside that contains `secret`, and a link to the
    /// workspace.
    fn new() -> Self {
        let base = tempfile::tempdir().expect("a temporary directory");
        let path = base.path().canonicalize().expect("just made");
        let (root, outside, alias) = (path.join("in"), path.join("out"), path.join("alias"));
        fs::create_dir(&root).expect("new");
        fs::create_dir(&outside).expect("new");
        fs::write(outside.join("a"), SECRET).expect("new");
        fs::write(outside.join("secret"), SECRET).expect("new");
        symlink(&root, &alias).expect("new");
        Self { _base: base, root, outside, alias }
    }

    fn open(&self, by_steps: bool) -> Arc<Workspace> {
        let workspace = Workspace::open(&self.root).expect("a directory");
        workspace.roots[0].lacks_openat2.store(by_steps, Ordering::Relaxed);
        Arc::new(workspace)
    }
}

fn put(disk: &Arc<Workspace>, files: &[(&str, &str)]) -> Result<(), ToolError> {
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.into()).collect();
    WriteFiles::unchecked(disk.clone()).change(&paths, &mut |_| {
        let put = |(target, (_, text)): (usize, &(&str, &str))| PlannedChange::Put {
            target,
            bytes: text.as_bytes().to_vec().into(),
            like: None,
        };
        Ok(files.iter().enumerate().map(put).collect())
    })
}

/// An entry of a random tree.
#[derive(Clone, Debug)]
enum Thing {
    Directory,
    File,
    Link(String),
}

/// A few names, so that paths meet entries; the first word says where an absolute path begins.
fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![4 => "[a-c]", 2 => Just("..".to_owned()), 1 => Just(".".to_owned())];
    let start = prop_oneof![
        6 => Just(""),
        1 => Just("IN/"),
        1 => Just("ALIAS/"),
        1 => Just("OUT/"),
        1 => Just("../out/"),
        1 => Just("/proc/self/root/IN/"),
    ];
    (start, prop::collection::vec(name, 1..5))
        .prop_map(|(start, names)| start.to_owned() + &names.join("/"))
}

fn thing() -> impl Strategy<Value = (String, Thing)> {
    let thing = prop_oneof![
        Just(Thing::Directory),
        Just(Thing::File),
        path().prop_map(Thing::Link),
        path().prop_map(Thing::Link),
    ];
    (prop::collection::vec("[a-c]", 1..4).prop_map(|names| names.join("/")), thing)
}

fn written_out(place: &Place, path: &str) -> String {
    let shown = |path: &Path| path.to_str().expect("plain").to_owned();
    path.replace("ALIAS", &shown(&place.alias))
        .replace("/IN", &shown(&place.root))
        .replace("IN", &shown(&place.root))
        .replace("OUT", &shown(&place.outside))
}

fn plant(place: &Place, things: &[(String, Thing)]) {
    for (path, thing) in things {
        let path = place.root.join(path);
        // Skip entries that conflict with the others.
        let above = path.parent().expect("below the root");
        if !above.canonicalize().is_ok_and(|above| above.starts_with(&place.root)) {
            continue;
        }
        let _ = match thing {
            Thing::Directory => fs::create_dir(path).is_ok(),
            Thing::File if path.symlink_metadata().is_err() => fs::write(path, "inside").is_ok(),
            Thing::File => false,
            Thing::Link(target) => symlink(written_out(place, target), path).is_ok(),
        };
    }
}

/// Checks that resolving and reading agree with the system, except that nothing outside is read.
fn check_path(place: &Place, disk: &Arc<Workspace>, path: &str) {
    let read = ReadFiles::unchecked(disk.clone()).open_file(Path::new(path));
    let read = read.and_then(|file| file.read_whole());
    if let Ok(content) = &read {
        assert_eq!(content, b"inside", "{path}");
    }
    let Ok(real) = place.root.join(path).canonicalize() else {
        // We let `..` cancel a missing name; the system does not.
        return;
    };
    let resolved = disk.resolve(Path::new(path));
    match real.strip_prefix(&place.root) {
        Ok(inside) => {
            let inside = if inside == Path::new("") { Path::new(".") } else { inside };
            assert_eq!(resolved, inside, "{path}");
            assert_eq!(read.is_ok(), real.is_file(), "{path}: {read:?}");
        }
        Err(_) => {
            assert_eq!(resolved, real, "{path}");
            assert_eq!(read.expect_err("outside").kind(), ErrorKind::Denied, "{path}");
        }
    }
    assert!(!resolved.starts_with("..") && !resolved.starts_with("/proc"), "{path}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_path_leads_where_the_system_says_or_nowhere(
        things in prop::collection::vec(thing(), 0..14),
        paths in prop::collection::vec(path(), 1..12),
        writes in prop::collection::vec(path(), 0..3),
    ) {
        let place = Place::new();
        plant(&place, &things);
        for by_steps in [false, true] {
            let disk = place.open(by_steps);
            for path in &paths {
                check_path(&place, &disk, &written_out(&place, path));
            }
            for path in &writes {
                let _ = put(&disk, &[(&written_out(&place, path), "inside")]);
                let _ = WriteFiles::unchecked(disk.clone()).make_directory(Path::new(&written_out(&place, path)));
            }
            assert_eq!(fs::read_dir(&place.outside).expect("there").count(), 2);
            assert_eq!(fs::read_to_string(place.outside.join("a")).expect("there"), SECRET);
            assert_eq!(fs::read_dir(place.root.parent().expect("base")).expect("there").count(), 3);
        }
    }
}

#[test]
fn a_link_for_a_directory_is_called_so_by_steps_too() {
    let place = Place::new();
    fs::create_dir(place.root.join("dir")).expect("new");
    symlink("dir", place.root.join("link")).expect("new");
    for by_steps in [false, true] {
        let disk = place.open(by_steps);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY;
        for (path, flags) in [("link", directory), ("link", OFlags::RDONLY), ("link/x", directory)]
        {
            let opened = disk.roots[0].open_at(Path::new(path), flags).err();
            assert_eq!(opened, Some(Errno::LOOP), "{path}");
        }
        for path in ["..", "dir/../..", "/"] {
            let opened = disk.roots[0].open_at(Path::new(path), OFlags::PATH).err();
            assert_eq!(opened, Some(Errno::XDEV), "{path}");
        }
    }
}

#[test]
fn a_directory_swapped_for_a_link_leads_nowhere_else_by_steps_too() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let place = Place::new();
    let (directory, link) = (place.root.join("dir"), place.root.join("link"));
    fs::create_dir(&directory).expect("new");
    fs::write(directory.join("a"), "inside").expect("new");
    symlink(&place.outside, &link).expect("new");
    let disk = place.open(true);
    let ends = AtomicBool::new(false);
    let mut is_inside = true;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).expect("both");
            }
        });
        for number in 0..2_000 {
            let file = ReadFiles::unchecked(disk.clone()).open_file(Path::new("dir/a"));
            if let Ok(content) = file.and_then(|file| file.read_whole()) {
                is_inside &= content.starts_with(b"inside");
            }
            if number % 10 == 0 {
                let _ = put(&disk, &[("dir/a", &format!("inside {number}"))]);
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(is_inside);
    assert_eq!(fs::read_to_string(place.outside.join("a")).expect("there"), SECRET);
    assert_eq!(fs::read_dir(&place.outside).expect("there").count(), 2);
}

#[test]
fn without_unnamed_files_the_staging_area_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let disk = place.open(true);
    disk.roots[0].lacks_tmpfile.store(true, Ordering::Relaxed);
    fs::write(place.root.join("old"), "old").expect("new");
    fs::set_permissions(place.root.join("old"), PermissionsExt::from_mode(0o600)).expect("own");
    put(&disk, &[("new", "1")]).expect("free");
    put(&disk, &[("old", "1")]).expect("there");
    put(&disk, &[("old", "2"), ("new", "2"), ("dir/newer", "2")]).expect("open");
    let failed = WriteFiles::unchecked(disk).change(&["free".into()], &mut |_| {
        fs::write(place.root.join("free"), "theirs").expect("new");
        Ok(vec![PlannedChange::Put { target: 0, bytes: b"ours".to_vec().into(), like: None }])
    });
    assert_eq!(failed.expect_err("taken meanwhile").kind(), ErrorKind::Conflict);
    for (path, content) in [("old", "2"), ("new", "2"), ("dir/newer", "2"), ("free", "theirs")] {
        assert_eq!(fs::read_to_string(place.root.join(path)).expect("there"), content);
    }
    let mode = fs::metadata(place.root.join("old")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(place.root.join(".haft/tmp")).expect("made").count(), 0);
}

#[test]
fn a_lock_that_is_never_released_is_not_waited_for_forever() {
    let place = Place::new();
    fs::write(place.root.join("file"), "old").expect("new");
    fs::create_dir_all(place.root.join(".haft/tmp")).expect("new");
    let mut workspace = Workspace::open(&place.root).expect("a directory");
    workspace.lock_timeout = Duration::from_millis(20);
    let disk = Arc::new(workspace);
    for (held, names) in [(place.root.clone(), "`.`"), (place.root.join(".haft/tmp"), ".haft/tmp")]
    {
        let holder = fs::File::open(held).expect("there");
        flock(holder.as_fd(), FlockOperation::LockExclusive).expect("free");
        let error = put(&disk, &[("file", "new")]).expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(names), "{error}");
    }
    put(&disk, &[("file", "new")]).expect("free again");
}

#[test]
fn a_directory_that_is_moved_while_its_lock_is_awaited_is_looked_up_again() {
    let place = Place::new();
    fs::create_dir(place.root.join("dir")).expect("new");
    fs::write(place.root.join("dir/file"), "moved").expect("new");
    let disk = place.open(false);
    let holder = fs::File::open(place.root.join("dir")).expect("there");
    flock(holder.as_fd(), FlockOperation::LockExclusive).expect("free");
    thread::scope(|scope| {
        let writer = scope.spawn(|| put(&disk, &[("dir/file", "new")]));
        fs::rename(place.root.join("dir"), place.root.join("away")).expect("free");
        drop(holder);
        writer.join().expect("no panic").expect("the directory is made anew");
    });
    assert_eq!(fs::read_to_string(place.root.join("away/file")).expect("there"), "moved");
    assert_eq!(fs::read_to_string(place.root.join("dir/file")).expect("there"), "new");
}

#[test]
fn a_root_that_cannot_be_listed_does_not_make_the_search_for_near_names_endless() {
    let place = Place::new();
    let mut workspace = Workspace::open(&place.root).expect("a directory");
    // Acts like a directory without read permission, which does not affect root.
    workspace.roots[0].handle = fs::File::open(place.outside.join("a")).expect("there").into();
    let error = ReadFiles::unchecked(Arc::new(workspace)).metadata(Path::new("x/y"));
    assert_eq!(error.expect_err("nothing is there").kind(), ErrorKind::NotFound);
}

#[test]
fn a_folder_that_is_called_as_a_root_is_shown_is_never_taken_for_it() {
    let place = Place::new();
    fs::create_dir(place.root.join("@docs")).expect("new");
    fs::write(place.root.join("@docs/a"), "of the workspace").expect("new");
    let mut workspace = Workspace::open(&place.root).expect("a directory");
    workspace.add_root("docs", &place.outside).expect("a directory");
    let shown = PathBuf::from("@docs/a");
    assert_eq!(workspace.resolve_file(Path::new("@docs/a")), (shown.clone(), true));
    assert_eq!(workspace.resolve_file(Path::new("./@docs/a")), (shown, false));
}
