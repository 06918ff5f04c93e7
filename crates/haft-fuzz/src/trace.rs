//! Parses the log of strace: the actions of each process, text by text.

use std::collections::HashMap;

/// An action of a process. Events are in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    /// The process.
    pub(crate) pid: u32,
    /// Its action.
    pub(crate) action: TraceAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceAction {
    /// The process spawned this one.
    Forked(u32),
    /// The process executed another program.
    Executed { path: String, argv: Vec<String> },
    /// The process opened a file to read it.
    Read(String),
    /// The process created, changed or removed a file.
    Wrote(String),
    /// The process removed or moved a name; of a link the link itself.
    Unlinked(String),
    /// The process created a link, so that paths may have other targets from now on.
    Linked,
}

/// The system calls that are recorded.
pub(crate) const CALLS: &str = "execve,execveat,open,openat,openat2,creat,unlink,unlinkat,rmdir,rename,renameat,renameat2,\
    mkdir,mkdirat,link,linkat,symlink,symlinkat,chmod,fchmodat,truncate,utimensat,mknod,mknodat,chown,lchown,fchownat,\
    chdir,fchdir,clone,clone3,fork,vfork";

/// The driver opens these files to mark where a text begins and ends.
pub(crate) const BEGIN: &str = "/mark/begin";
pub(crate) const END: &str = "/mark/end";

/// Splits a log into the events of each text, without those of the driver between the texts.
pub(crate) fn texts(log: &str) -> Vec<Vec<TraceEvent>> {
    let mut parser = Parser::default();
    let mut driver = None;
    let mut texts = Vec::new();
    let mut current: Option<Vec<TraceEvent>> = None;
    for line in log.lines() {
        let Some((pid, call)) = parser.line(line) else { continue };
        // The driver is the first process that opens the mark: a text may open it as well.
        let is_driver = driver.is_none_or(|driver| driver == pid);
        if is_driver && call.starts_with("open") && call.contains(&format!("\"{BEGIN}\"")) {
            driver = Some(pid);
            current = Some(Vec::new());
        } else if driver == Some(pid) && call.contains(&format!("\"{END}\"")) {
            texts.extend(current.take());
        } else {
            let actions = parser.actions(pid, &call);
            if let Some(current) = &mut current {
                current.extend(actions.into_iter().map(|action| TraceEvent { pid, action }));
            }
        }
    }
    texts
}

#[derive(Default)]
struct Parser {
    /// Beginnings of calls that were interrupted by other lines.
    unfinished: HashMap<u32, String>,
    /// Working directory of each process, if known.
    directories: HashMap<u32, String>,
}

impl Parser {
    /// Returns the process and its complete call, once it has returned.
    fn line(&mut self, line: &str) -> Option<(u32, String)> {
        let (pid, call) = line.split_once(' ')?;
        let (pid, call) = (pid.parse().ok()?, call.trim_start());
        if let Some(begin) = call.strip_suffix("<unfinished ...>") {
            self.unfinished.insert(pid, begin.trim_end().to_owned());
            return None;
        }
        if call.starts_with("<... ") {
            let (_, end) = call.split_once(" resumed>")?;
            let begin = self.unfinished.remove(&pid)?;
            return Some((pid, begin + end));
        }
        Some((pid, call.to_owned()))
    }

    fn actions(&mut self, pid: u32, call: &str) -> Vec<TraceAction> {
        let Some((name, rest)) = call.split_once('(') else { return Vec::new() };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return Vec::new() };
        let is_script = result.contains("ENOEXEC");
        if result.starts_with('-') && !is_script || result.starts_with('?') {
            return Vec::new();
        }
        if let Some((_, after)) = arguments.split_once("AT_FDCWD<") {
            let directory = after.split('>').next().unwrap_or_default();
            self.directories.insert(pid, directory.to_owned());
        }
        let strings = strings(arguments);
        match name {
            "clone" | "clone3" | "fork" | "vfork" => self.forked(pid, result),
            "execve" | "execveat" => {
                let mut strings = strings.into_iter().map(|(_, text)| text);
                let path = strings.next().unwrap_or_default();
                vec![TraceAction::Executed { path, argv: strings.collect() }]
            }
            "chdir" => {
                let path = strings.first().map(|(_, text)| self.joined(pid, "", text));
                self.directories.extend(path.map(|path| (pid, path)));
                Vec::new()
            }
            "fchdir" => {
                let path = arguments
                    .split_once('<')
                    .map(|(_, path)| path.trim_end_matches([')', '>', ' ']));
                self.directories.extend(path.map(|path| (pid, path.to_owned())));
                Vec::new()
            }
            "open" | "openat" | "openat2" | "creat" => opened(name, arguments, result),
            "symlink" | "symlinkat" | "link" | "linkat" => {
                let path = strings.last().map(|(before, text)| self.joined(pid, before, text));
                path.map(TraceAction::Wrote).into_iter().chain([TraceAction::Linked]).collect()
            }
            // Both names, because a moved file is no longer at its old path.
            "unlink" | "unlinkat" | "rmdir" | "rename" | "renameat" | "renameat2" => strings
                .iter()
                .map(|(before, text)| TraceAction::Unlinked(self.joined(pid, before, text)))
                .collect(),
            _ => strings
                .iter()
                .map(|(before, text)| TraceAction::Wrote(self.joined(pid, before, text)))
                .collect(),
        }
    }

    /// Returns the child. strace shows its pid in both namespaces; the outer one is needed.
    fn forked(&mut self, pid: u32, result: &str) -> Vec<TraceAction> {
        let outside = result.split_once("/* ").and_then(|(_, after)| after.split(' ').next());
        let number = outside.or_else(|| result.split(' ').next());
        let Some(child) = number.and_then(|number| number.parse().ok()) else { return Vec::new() };
        if let Some(directory) = self.directories.get(&pid).cloned() {
            self.directories.entry(child).or_insert(directory);
        }
        vec![TraceAction::Forked(child)]
    }

    /// Joins a path to its directory: that of the descriptor before it, or of the process.
    fn joined(&self, pid: u32, before: &str, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let descriptor =
            before.rsplit_once('<').map(|(_, after)| after.split('>').next().unwrap_or_default());
        let own = self.directories.get(&pid).map_or("/", String::as_str);
        let directory = descriptor.filter(|path| path.starts_with('/')).unwrap_or(own);
        format!("{directory}/{path}")
    }
}

fn opened(name: &str, arguments: &str, result: &str) -> Vec<TraceAction> {
    let flags = arguments.rsplit_once('"').map_or("", |(_, flags)| flags);
    // The path of the descriptor has all links resolved.
    let path = result.split_once('<').map_or("", |(_, path)| path.trim_end_matches('>'));
    let path = path.trim_end_matches("(deleted)").trim_end_matches('>');
    let path = strings(&format!("\"{path}\"")).pop().unwrap_or_default().1;
    if flags.contains("O_DIRECTORY") || flags.contains("O_PATH") || !path.starts_with('/') {
        return Vec::new();
    }
    let writes = name == "creat"
        || ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| flags.contains(flag));
    vec![if writes { TraceAction::Wrote(path) } else { TraceAction::Read(path) }]
}

/// Returns the quoted strings of a call, each with the text before it.
fn strings(arguments: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut characters = arguments.chars().peekable();
    while let Some(c) = characters.next() {
        let after_number = before.ends_with(|c: char| c.is_ascii_digit() || c == 'D');
        if c == '<' && after_number {
            skip_path(&mut characters, &mut before);
            continue;
        }
        if c != '"' {
            before.push(c);
            continue;
        }
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(c) = characters.next().filter(|c| *c != '"') {
            match c {
                '\\' => bytes.push(escaped(&mut characters)),
                c => bytes.extend(c.to_string().as_bytes()),
            }
        }
        found.push((std::mem::take(&mut before), String::from_utf8_lossy(&bytes).into_owned()));
    }
    found
}

/// Skips the path of a descriptor, in which quotes are ordinary characters.
fn skip_path(characters: &mut std::iter::Peekable<std::str::Chars<'_>>, before: &mut String) {
    before.push('<');
    while let Some(c) = characters.next() {
        before.push(c);
        if c == '>' && matches!(characters.peek(), None | Some(',' | ')')) {
            return;
        }
    }
}

/// Parses a C escape after a backslash.
fn escaped(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> u8 {
    let first = characters.next().unwrap_or('\\');
    match first {
        'n' => b'\n',
        't' => b'\t',
        'r' => b'\r',
        'v' => 11,
        'f' => 12,
        'x' => {
            let digits: String = characters.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16).unwrap_or_default()
        }
        '0'..='7' => {
            let mut value = first.to_digit(8).unwrap_or_default();
            for _ in 0..2 {
                let Some(digit) = characters.peek().and_then(|c| c.to_digit(8)) else { break };
                value = value * 8 + digit;
                characters.next();
            }
            u8::try_from(value).unwrap_or_default()
        }
        other => u8::try_from(u32::from(other)).unwrap_or(b'?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"7 openat(AT_FDCWD</>, "/mark/begin", O_RDONLY) = -1 ENOENT (No such file or directory)
7 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
9 execve("/usr/bin/touch", ["touch", "a\303\251\n\"x"], 0x55 /* 5 vars */) = 0
7 <... clone resumed>, child_tidptr=0x7f) = 3 /* 9 in strace's PID NS */
9 openat(AT_FDCWD</o/w>, "../k", O_RDONLY|O_CLOEXEC) = 3</o/k>
9 openat(AT_FDCWD</o/w>, "\346\274\242", O_WRONLY|O_CREAT, 0666) = 3</o/w/\346\274\242>
9 utimensat(3</o/w/">, NULL, NULL, 0) = 0
9 openat(AT_FDCWD</o/w>, "no", O_RDONLY) = -1 ENOENT (No such file or directory)
9 openat(AT_FDCWD</o/w>, ".", O_RDONLY|O_DIRECTORY) = 3</o/w>
9 unlink("b") = 0
9 renameat(4</o/d>, "c", AT_FDCWD</o/w>, "d") = 0
9 chdir("sub") = 0
9 mkdir("e", 0777) = 0
7 openat(AT_FDCWD</>, "/mark/end", O_RDONLY) = -1 ENOENT (No such file or directory)
7 unlink("later") = 0
"#;

    #[test]
    fn a_log_becomes_the_events_of_each_text() {
        let event = |pid, action| TraceEvent { pid, action };
        let wrote = |path: &str| event(9, TraceAction::Wrote(path.to_owned()));
        let unlinked = |path: &str| event(9, TraceAction::Unlinked(path.to_owned()));
        let argv = vec!["touch".to_owned(), "aé\n\"x".to_owned()];
        let expected = vec![
            event(9, TraceAction::Executed { path: "/usr/bin/touch".to_owned(), argv }),
            event(7, TraceAction::Forked(9)),
            event(9, TraceAction::Read("/o/k".to_owned())),
            wrote("/o/w/漢"),
            unlinked("/o/w/b"),
            unlinked("/o/d/c"),
            unlinked("/o/w/d"),
            wrote("/o/w/sub/e"),
        ];
        assert_eq!(texts(LOG), [expected]);
    }
}
