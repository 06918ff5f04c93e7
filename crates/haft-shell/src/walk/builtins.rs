//! Builtins of the shell that change its directory, its variables and its settings.

use super::{
    super::{FileAction, Reach, Risk, Word, environment, files::NamedFile, quoting, safe, words},
    Walker,
    commands::CommandContext,
    directories::{folded, path_of},
};

impl Walker<'_> {
    /// Handles such a builtin. Returns true when the command needs no further handling.
    pub(super) fn builtin(&mut self, name: &str, words: &[Word], context: &CommandContext) -> bool {
        let rest = words.get(1..).unwrap_or_default();
        match name {
            "cd" | "chdir" | "pushd" => {
                if !context.prefix.is_empty() {
                    self.doubt(&words::line(words), "a variable decides the directory");
                }
                self.change_directory(rest);
            }
            "popd" => {
                self.file_doubt("popd", "the directory is unknown");
                self.directories.clear();
            }
            "source" | "." => {
                if rest.first().is_some_and(|word| word.is_fetched) {
                    self.push(
                        words,
                        Risk::Dangerous("it runs code from the network"),
                        Vec::new(),
                        context,
                    );
                    return true;
                }
                self.is_tainted = true;
                return false;
            }
            "alias" | "hash" | "enable" | "shopt" | "set" | "complete" | "bind" | "fc" | "let"
            | "getopts" | "read" | "mapfile" | "readarray" | "declare" | "typeset" | "local"
            | "export" | "readonly" | "unset" | "compgen" => {
                self.setting(name, words, context);
                return true;
            }
            "exec" if rest.is_empty() => {
                self.is_tainted = true;
                return true;
            }
            "printf" if !safe::prints_plainly(rest) => {
                self.doubt(&words::line(words), "the variable name may contain a command");
                return false;
            }
            "jobs" if !safe::is_read_only(name, words, context.more) => {
                self.doubt(&words::line(words), "it runs the words after `-x`");
                return false;
            }
            "test" | "[" if !safe::tests_plainly(rest) => {
                self.doubt(&words::line(words), "the variable name may contain a command");
                return false;
            }
            _ => return false,
        }
        self.push(words, Risk::ReadOnly, Vec::new(), context);
        true
    }

    pub(super) fn setting(&mut self, name: &str, words: &[Word], context: &CommandContext) {
        let rest = words.get(1..).unwrap_or_default();
        let is_plain = safe::is_read_only(name, words, context.more) && context.prefix.is_empty();
        if !is_plain {
            self.doubt(&words::line(words), "it changes how the shell reads later commands");
        }
        let makes_lists = matches!(name, "mapfile" | "readarray")
            || rest.iter().any(|word| matches!(word.known(), Some("-a" | "-A" | "-ra")));
        for word in rest {
            let variable = word.prefix.split('=').next().unwrap_or_default();
            let value = word.known().and_then(|text| text.split_once('=')).map(|(_, value)| value);
            let is_number = value.is_some_and(|value| value.parse::<i64>().is_ok());
            if quoting::is_name(variable) {
                self.assigned(variable, is_number);
                if makes_lists {
                    self.lists.insert(variable.to_owned());
                } else if word.known().is_none() {
                    self.maybe_lists.insert(variable.to_owned());
                }
            }
        }
        let is_read_only = is_plain && !exports_unknown(name, rest);
        self.push(
            words,
            if is_read_only { Risk::ReadOnly } else { Risk::Other },
            Vec::new(),
            context,
        );
    }

    pub(super) fn change_directory(&mut self, rest: &[Word]) {
        self.moves = true;
        let mut operands =
            rest.iter().filter(|word| !matches!(word.known(), Some("--" | "-L" | "-e")));
        let home = Word { has_tilde: true, ..Word::exact("~") };
        let target = operands.next().unwrap_or(&home);
        let is_known =
            target.known().is_some_and(|text| !text.starts_with('-') && !text.starts_with('+'));
        let is_user = target.has_tilde && target.text != "~" && !target.text.starts_with("~/");
        if !is_known || is_user || operands.next().is_some() {
            self.file_doubt(&target.text, "the directory is unknown");
            self.directories.clear();
            return;
        }
        self.file(&NamedFile { word: target.clone(), how: FileAction::Read, reach: Reach::Itself });
        let path = path_of(target);
        self.directories =
            self.directories.iter().map(|place| folded(&place.join(&path))).collect();
    }
}

/// Returns true when programs get to see a variable whose effect is not known.
fn exports_unknown(name: &str, rest: &[Word]) -> bool {
    let exports = name == "export"
        || matches!(name, "declare" | "typeset" | "local" | "readonly")
            && rest.iter().any(|word| word.is("-x"));
    let is_known = |word: &Word| {
        let variable = word.prefix.split('=').next().unwrap_or_default();
        variable.starts_with('-') || environment::is_harmless(variable)
    };
    exports && !rest.iter().all(is_known)
}
