//! Unfinished lines written to shells. The next text continues such a line, so policy cannot judge
//! that text separately.

use std::{collections::HashMap, sync::LazyLock};

use parking_lot::{Mutex, MutexGuard};

use haft_core::commands::Process;

/// Maximum size of an unfinished line. A longer one stays unfinished forever.
const MAX_BYTES: usize = 64 << 10;

/// Unfinished lines by process id. Sessions number their processes separately, so an id may name a
/// line of another session; the only consequence is one more approval request.
static UNFINISHED: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

fn unfinished() -> MutexGuard<'static, HashMap<String, String>> {
    UNFINISHED.lock()
}

/// Returns true if a process has an unfinished line.
pub(super) fn has_unfinished(id: &str) -> bool {
    unfinished().contains_key(id)
}

/// Remembers a text written to a shell, as far as its last line is unfinished.
pub(super) fn note(process: &dyn Process, text: &str) {
    if haft_shell::starts_shell(process.command()) {
        add(process.id(), text);
    }
}

fn add(id: &str, text: &str) {
    let mut unfinished = unfinished();
    let mut line = unfinished.remove(id).unwrap_or_default();
    if line.len() <= MAX_BYTES {
        line.push_str(text);
    }
    if !line.is_empty() && !haft_shell::is_complete(&line) {
        unfinished.insert(id.to_owned(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: bool) {
        let id = pieces.concat();
        for piece in pieces {
            add(&id, piece);
        }
        assert_eq!(has_unfinished(&id), expected, "{pieces:?}");
    }

    #[test]
    fn a_line_is_unfinished_until_the_shell_runs_it() {
        check(&["tou"], true);
        check(&["tou", "ch m\n"], false);
        check(&["ls\n"], false);
        check(&["echo \"a\n"], true);
        check(&["echo \"a\n", "b\"\n"], false);
        check(&["cat <<E\n", "text\n"], true);
        check(&["cat <<E\n", "text\n", "E\n"], false);
        check(&["tou\\\n"], true);
        check(&["tou\\\n", "ch m\n"], false);
        check(&["echo \\\\\n"], false);
        check(&["if true\n", "then\n"], true);
        check(&["if true\n", "then\n", "ls; fi\n"], false);
        check(&["f() {\n"], true);
        check(&["ls |\n"], true);
        check(&["ls &&\n"], true);
        check(&["echo $(\n"], true);
        check(&["echo `\n"], true);
        check(&["case x in\n"], true);
        check(&["", ""], false);
        check(&[&"'".repeat(MAX_BYTES + 1), "'", "\n", "ls\n"], true);
    }
}
