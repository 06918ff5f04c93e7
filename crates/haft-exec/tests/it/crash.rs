//! Killed at any moment: every file has one complete content, and files that change together have
//! the same generation.

use std::{
    collections::hash_map::{DefaultHasher, RandomState},
    fs,
    hash::{BuildHasher, Hash, Hasher},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::test_workspace::{TestWorkspace, again, open, variable};

/// Few rounds hit the moment between the first and the last rename: enough rounds that some do.
const ROUNDS: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A unique content for each generation, with a checksum.
fn content(generation: u64) -> String {
    let body = format!("{generation}\n").repeat(1 + (generation % 3_000) as usize);
    format!("{body}{}", checksum(&body))
}

fn checksum(body: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

/// Returns the generation of a file, which must be complete.
#[track_caller]
fn generation(path: &Path) -> u64 {
    let text = fs::read_to_string(path).expect("there");
    let (body, sum) = text.rsplit_once('\n').expect("several lines");
    assert_eq!(sum, checksum(&format!("{body}\n")).to_string(), "{} is torn", path.display());
    body.lines().next().expect("one").parse().expect("a number")
}

fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0) % below
}

fn write_for_ever(root: &Path, names: &[&str]) {
    let place = TestWorkspace::at(root);
    let mut generation = random(1 << 40);
    loop {
        generation += 1;
        let text = content(generation);
        let files: Vec<_> = names.iter().map(|name| (*name, text.as_str())).collect();
        place.put_all(&files, || {}).expect("open");
        writeln!(std::io::stdout(), "did").expect("the parent listens");
    }
}

const ONE: (&str, &str) = ("HAFT_TEST_WRITES_ONE", "crash::writer_of_one");
const THREE: (&str, &str) = ("HAFT_TEST_WRITES_THREE", "crash::writer_of_three");
const NAMES: [&str; 3] = ["one", "dir/two", "dir/three"];

#[test]
fn writer_of_one() {
    if let Some(root) = variable(ONE.0) {
        write_for_ever(&root, &["one"]);
    }
}

#[test]
fn writer_of_three() {
    if let Some(root) = variable(THREE.0) {
        write_for_ever(&root, &NAMES);
    }
}

/// Starts a writer and kills it after some of its writes, somewhere in the next one.
fn kill_one(place: &TestWorkspace, (variable, test): (&str, &str)) {
    let mut command = again(test, variable, &place.root);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = output.lines().map_while(Result::ok).filter(|line| line.ends_with("did"));
    let wanted = 1 + random(6) as usize;
    assert_eq!(lines.by_ref().take(wanted).count(), wanted, "the writer ended by itself");
    for _ in 0..random(400_000) {
        std::hint::spin_loop();
    }
    child.kill().expect("it runs");
    child.wait().expect("killed");
}

fn check(names: &[&str], writer: (&str, &str)) {
    let place = TestWorkspace::new();
    for name in names {
        place.file(name, &content(0));
    }
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        kill_one(&place, writer);
        for name in names {
            generation(&place.root.join(name));
        }
        open(&place.root);
        place.assert_clean();
        let generations: Vec<u64> =
            names.iter().map(|name| generation(&place.root.join(name))).collect();
        assert!(generations.iter().all(|other| *other == generations[0]), "{generations:?}");
        if begin.elapsed() > TIMEOUT {
            break;
        }
    }
}

#[test]
fn a_killed_writer_leaves_one_whole_file() {
    check(&["one"], ONE);
}

#[test]
fn a_killed_writer_of_three_leaves_three_of_one_age() {
    check(&NAMES, THREE);
}
