//! The README, the guides and the walk of the sample project: every command in a `console` block
//! runs, in order, in a fresh sample project, and prints what the page shows. In the shown output
//! `…` stands for anything within a line, and a line of only `…` for any number of lines. `# exits
//! with N` after a command names an exit code other than 0.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

const HAFT: &str = env!("CARGO_BIN_EXE_haft");
/// Ends the output of each command; no page prints it.
const END: &str = "\u{1}end of command\u{1}";

struct CodeBlock {
    language: String,
    /// Code that is not compiled.
    is_ignored: bool,
    line: usize,
    text: String,
}

#[derive(Debug)]
struct ShownCommand {
    line: usize,
    text: String,
    exit_code: i32,
    output: Vec<String>,
}

#[test]
fn commands_of_the_readme_run_as_shown() {
    assert!(check(&repository().join("README.md")) >= 3);
}

#[test]
fn the_walk_of_the_sample_project_runs_as_shown() {
    let home = Home::new();
    let (_, output) = home.run("haft sample demo");
    assert!(output.contains("haft bash ./test.sh"), "{output}");
    assert!(home.check_page(&home.folder().join("demo/README.md"), "cd demo") >= 15);
}

#[test]
fn commands_of_the_guides_run_as_shown() {
    let guides = guides();
    assert!(guides.len() >= 9, "{guides:?}");
    let count: usize = guides.iter().map(|guide| check(guide)).sum();
    assert!(count >= 20, "the guides show what they explain");
}

#[test]
fn configuration_in_guides_is_accepted() {
    let mut count = 0;
    for page in guides().into_iter().chain([repository().join("README.md")]) {
        for block in blocks(&page).into_iter().filter(|block| block.language == "toml") {
            let home = Home::new();
            fs::write(home.folder().join("config.toml"), &block.text).expect("written");
            let (code, output) = home.run("haft --config config.toml policy check");
            assert_eq!(code, 0, "{}:{}: {output}", page.display(), block.line);
            count += 1;
        }
    }
    assert!(count >= 3, "the guides show configuration");
}

/// A command in a block of another kind would not be run by these tests.
#[test]
fn pages_keep_no_commands_from_these_tests() {
    const NOT_RUN: &[&str] = &["cargo ", "haft init ", "haft serve", "git clone "];
    for page in guides().into_iter().chain([repository().join("README.md")]) {
        for block in blocks(&page) {
            let place = format!("{}:{}", page.display(), block.line);
            match block.language.as_str() {
                "console" | "toml" | "json" | "rust" | "text" => {}
                "sh" => {
                    for line in block.text.lines().filter(|line| !line.is_empty()) {
                        let is_known = NOT_RUN.iter().any(|start| line.starts_with(start));
                        assert!(is_known, "{place}: `{line}` belongs into a console block");
                    }
                }
                other => panic!("{place}: what is a block of `{other}`?"),
            }
        }
    }
}

/// Other Rust code in guides runs as doc tests of the library.
#[test]
fn code_that_is_no_doc_test_is_that_of_an_example() {
    let examples = fs::read_dir(repository().join("examples")).expect("examples");
    let examples: String = examples
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).expect("readable"))
        .collect();
    for page in guides() {
        for block in blocks(&page).into_iter().filter(|block| block.is_ignored) {
            for line in block.text.lines() {
                let place = format!("{}:{}", page.display(), block.line);
                assert!(examples.contains(line), "{place}: no example has `{line}`");
            }
        }
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = guides();
    pages.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| repository().join(page)),
    );
    for page in pages {
        let text = fs::read_to_string(&page).expect("readable");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().expect("a folder").join(target);
            assert!(path.exists(), "{} links to {target}, which does not exist", page.display());
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn guides() -> Vec<PathBuf> {
    let listing = fs::read_dir(repository().join("docs/guide")).expect("a folder of guides");
    let mut pages: Vec<PathBuf> = listing.map(|entry| entry.expect("readable").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// Runs a page in the sample project, and returns the number of its commands.
#[track_caller]
fn check(page: &Path) -> usize {
    let home = Home::new();
    let is_readme = page.file_name().is_some_and(|name| name == "README.md");
    // The README makes the sample itself.
    let before = if is_readme { ":" } else { "haft sample demo >/dev/null && cd demo" };
    home.check_page(page, before)
}

/// An empty home with a folder to work in.
struct Home {
    root: TempDir,
}

impl Home {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("work")).expect("a folder");
        Self { root }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns exit code and output of a script in which `haft` is the binary under test.
    fn run(&self, script: &str) -> (i32, String) {
        let programs = Path::new(HAFT).parent().expect("a folder").display().to_string();
        let ran = Command::new("bash")
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .current_dir(self.folder())
            .env_clear()
            .env("HOME", self.root.path())
            .env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
            .env("TMPDIR", self.root.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        let output = String::from_utf8(ran.stdout).expect("text");
        (ran.status.code().expect("an exit code"), output)
    }

    #[track_caller]
    fn check_page(&self, page: &Path, before: &str) -> usize {
        let commands: Vec<ShownCommand> = blocks(page)
            .into_iter()
            .filter(|block| block.language == "console")
            .flat_map(|block| commands(&block))
            .collect();
        // One shell for all, so that `cd` and variables last.
        let mut script = format!("{before}\n");
        for command in &commands {
            script.push_str(&format!("{}\nprintf '\\n{END}%s\\n' $?\n", command.text));
        }
        let (_, output) = self.run(&script);
        let mut rest = output.as_str();
        for command in &commands {
            let place = format!("{}:{}: {}", page.display(), command.line, command.text);
            let Some((printed, after)) = rest.split_once(&format!("\n{END}")) else {
                panic!("{place}\ndid not run:\n{rest}");
            };
            let (code, after) = after.split_once('\n').expect("a line");
            rest = after;
            assert_eq!(code, command.exit_code.to_string(), "exit code of {place}\n{printed}");
            let printed: Vec<&str> = printed.lines().collect();
            let shown: Vec<&str> = command.output.iter().map(String::as_str).collect();
            if !shown.is_empty() {
                let (printed, shown) = (printed.as_slice(), shown.as_slice());
                assert!(
                    lines_match(shown, printed),
                    "{place}\nshown:\n{}\n\nprinted:\n{}",
                    shown.join("\n"),
                    printed.join("\n")
                );
            }
        }
        commands.len()
    }
}

fn blocks(page: &Path) -> Vec<CodeBlock> {
    let text = fs::read_to_string(page).expect("readable");
    let mut blocks: Vec<CodeBlock> = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), is_inside) {
            (Some(language), false) => {
                let (language, attributes) = language.split_once(',').unwrap_or((language, ""));
                blocks.push(CodeBlock {
                    language: language.to_owned(),
                    is_ignored: attributes.contains("ignore"),
                    line: index + 1,
                    text: String::new(),
                });
                is_inside = true;
            }
            (Some(_), true) => is_inside = false,
            (None, true) => {
                let block = blocks.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    assert!(!is_inside, "{}: a code block has no end", page.display());
    blocks
}

fn commands(block: &CodeBlock) -> Vec<ShownCommand> {
    let mut commands: Vec<ShownCommand> = Vec::new();
    for (index, line) in block.text.lines().enumerate() {
        let number = block.line + 1 + index;
        if let Some(text) = line.strip_prefix("$ ") {
            let (_, after) = text.split_once("# exits with ").unwrap_or_default();
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            let exit_code = digits.parse().unwrap_or(0);
            commands.push(ShownCommand {
                line: number,
                text: text.to_owned(),
                exit_code,
                output: Vec::new(),
            });
        } else if let Some(command) = commands.last_mut() {
            command.output.push(line.to_owned());
        } else {
            panic!("line {number}: a console block begins with a command: {line}");
        }
    }
    commands
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.iter().all(|line| line.is_empty()),
        Some((&"…", rest)) => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let printed = printed.trim_end();
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn shown_output_matches_line_by_line() {
    let is_match = |shown: &str, printed: &str| {
        let shown: Vec<&str> = shown.lines().collect();
        lines_match(&shown, &printed.lines().collect::<Vec<_>>())
    };
    assert!(is_match("a\n…\nd", "a\nb\nc\nd\n"));
    assert!(is_match("a …, c", "a b, c"));
    assert!(is_match("a\n…", "a"));
    assert!(!is_match("a", "a\nb"), "a line that is not shown");
    assert!(!is_match("a …, c", "a b, d"));
    assert!(!is_match("a\nb", "a"), "a line that is not printed");
}
