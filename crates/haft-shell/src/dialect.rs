//! Other shells than bash: which texts they read as bash does.

use super::parse::Problem;

/// Why a shell of this name may read the text differently, if it may. We read everything as bash does.
pub(super) fn difference(shell: &str, text: &str) -> Option<Problem> {
    let is_same = match shell {
        "bash" | "rbash" | "eval" | "trap" => true,
        // A csh or a fish is another language; zsh has patterns that run commands.
        "zsh" | "ksh" | "mksh" | "fish" => text.chars().all(is_plain),
        _ => is_posix(text),
    };
    (!is_same).then_some("another shell may read this text differently")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " ./_-:;|&>'\",+@%".contains(c)
}

/// No sign of what bash has and others have not, not even in quotes: it may come out of them.
fn is_posix(text: &str) -> bool {
    const OF_BASH: &[&str] = &[
        "$'", "$\"", "<(", ">(", "[[", "((", "&>", ">&", "<<<", "|&", "function", "coproc",
        "select", "time", "=(", "+=", ";&", "<\\(", "@", "~", "source", "\\\n",
    ];
    let dropped = text.replace("2>&1", "").replace(">&2", "").replace("\"$@\"", "");
    let has_list = text.contains('{') && (text.contains(',') || text.contains(".."));
    !has_list && !OF_BASH.iter().any(|sign| dropped.contains(sign))
}
