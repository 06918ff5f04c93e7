//! What only the shell itself can do: change its directory, its variables and its settings.

use super::{
    super::{How, Reach, Risk, Word, environment, files::Named, quoting, safe, words},
    Walker,
    commands::Around,
    places::{folded, path_of},
};

impl Walker<'_> {
    /// What only the shell itself can do. True when nothing more is to be said.
    pub(super) fn builtin(&mut self, name: &str, words: &[Word], around: &Around) -> bool {
        let rest = words.get(1..).unwrap_or_default();
        match name {
            "cd" | "chdir" | "pushd" => {
                if !around.prefix.is_empty() {
                    self.doubt(&words::line(words), "a variable changes which directory is meant");
                }
                self.change_directory(rest);
            }
            "popd" => {
                self.file_doubt("popd", "the directory is not known");
                self.places.clear();
            }
            "source" | "." => {
                if rest.first().is_some_and(|word| word.is_fetched) {
                    self.push(
                        words,
                        Risk::Dangerous("it runs what the network brings"),
                        Vec::new(),
                        around,
                    );
                    return true;
                }
                self.is_tainted = true;
                return false;
            }
            "alias" | "hash" | "enable" | "shopt" | "set" | "complete" | "bind" | "fc" | "let"
            | "getopts" | "read" | "mapfile" | "readarray" | "declare" | "typeset" | "local"
            | "export" | "readonly" | "unset" | "compgen" => {
                self.setting(name, words, around);
                return true;
            }
            "exec" if rest.is_empty() => {
                self.is_tainted = true;
                return true;
            }
            "printf" if !safe::prints_plainly(rest) => {
                self.doubt(&words::line(words), "the name of a variable may hold a command");
                return false;
            }
            "jobs" if !safe::only_looks(name, words, around.more) => {
                self.doubt(&words::line(words), "it runs the words after `-x`");
                return false;
            }
            "test" | "[" if !safe::tests_plainly(rest) => {
                self.doubt(&words::line(words), "the name of a variable may hold a command");
                return false;
            }
            _ => return false,
        }
        self.push(words, Risk::Looks, Vec::new(), around);
        true
    }

    pub(super) fn setting(&mut self, name: &str, words: &[Word], around: &Around) {
        let rest = words.get(1..).unwrap_or_default();
        let is_plain = safe::only_looks(name, words, around.more) && around.prefix.is_empty();
        if !is_plain {
            self.doubt(&words::line(words), "it changes how the shell reads the rest");
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
        let only_looks = is_plain && !exports_unknown(name, rest);
        self.push(words, if only_looks { Risk::Looks } else { Risk::Usual }, Vec::new(), around);
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
            self.file_doubt(&target.text, "the directory is not known");
            self.places.clear();
            return;
        }
        self.file(&Named { word: target.clone(), how: How::Read, reach: Reach::Itself });
        let path = path_of(target);
        self.places = self.places.iter().map(|place| folded(&place.join(&path))).collect();
    }
}

/// Whether programs will see a variable of which nobody knows what they make of it.
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
