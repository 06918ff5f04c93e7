//! The tree of a shell text: what [`super::parse`] makes and [`super::walk`] goes through.

/// Statements in order, each with what stands after it.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) statements: Vec<Statement>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) pipelines: Vec<(Joint, Vec<Node>)>,
    pub(super) is_background: bool,
}

/// What stands before a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    First,
    And,
    Or,
}

/// One element of a pipeline.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Simple(Simple),
    /// `{ … }`, and whatever else runs here, once.
    Group(List),
    /// `( … )`, a coprocess: what changes inside stays inside.
    Subshell(List),
    /// `if`: each list in order.
    If(Vec<List>),
    /// `while`, `until`, `for`, `select`: the variable with its words, and what is repeated.
    Loop {
        variable: Option<String>,
        words: Vec<Word>,
        lists: Vec<List>,
    },
    Case {
        subject: Word,
        patterns: Vec<Word>,
        lists: Vec<List>,
    },
    Function {
        name: String,
        body: Box<Node>,
    },
    /// `[[ … ]]`: its words, operators among them.
    Test(Vec<Word>),
    /// `(( … ))` or the head of a C-like `for`.
    Arithmetic(Arithmetic),
}

#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) values: Vec<Word>,
    /// `name=(…)`, `name[…]=`: more than one plain value.
    pub(super) is_array: bool,
    /// As it was written.
    pub(super) source: String,
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) how: Direction,
    pub(super) target: Word,
    /// A here-document: the number of its text.
    pub(super) here: Option<usize>,
    /// `{name}>`: the shell sets this variable.
    pub(super) variable: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
    ReadWrite,
    /// `<&` and `>&`: mostly a descriptor, else a file.
    Duplicate,
    /// A text that stands in the command.
    Here,
}

/// A word as it was written, and what is known of what becomes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    pub(super) source: String,
    /// Where it begins in the text.
    pub(super) start: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Literal {
        text: String,
        is_quoted: bool,
    },
    /// An unquoted `*`, `?` or `[…`.
    Glob(char),
    /// Unquoted `{`, `,` or `}`, which may be a brace expansion.
    Brace(char),
    /// An unquoted `~` at the beginning.
    Tilde,
    /// Text that is only known when it runs.
    Expansion(std::rc::Rc<Expansion>, Quoting),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Quoted,
    Bare,
}

/// What runs inside an expansion, in the order it was written.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    pub(super) lists: Vec<List>,
    pub(super) arithmetic: Vec<Arithmetic>,
    /// Words after the operator in `${x:-word}`.
    pub(super) words: Vec<Word>,
    /// The variable that `${x:=…}` sets.
    pub(super) assigns: Option<String>,
    /// The variable that becomes a list by `${x[0]:=…}`.
    pub(super) list: Option<String>,
    pub(super) doubt: Option<&'static str>,
    /// A number whatever happens: `$((…))`, `$?`, `$#`, `${#x}`, `$$`.
    pub(super) is_number: bool,
    /// `$x` or `${x}` and nothing more.
    pub(super) variable: Option<String>,
}

/// An arithmetic expression: the names in it, which are evaluated again and again, and the expansions.
#[derive(Debug, Default)]
pub(super) struct Arithmetic {
    pub(super) names: Vec<String>,
    pub(super) assigned: Vec<String>,
    /// Names with an index, which are lists when they are set.
    pub(super) lists: Vec<String>,
    pub(super) parts: Vec<Part>,
}

impl Word {
    /// The text when it is known to the last character and nothing of it is special. None with globs and expansions.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal { text: literal, .. } => text.push_str(literal),
                Part::Brace(brace) if !self.has_braces() => text.push(*brace),
                _ => return None,
            }
        }
        Some(text)
    }

    /// The text when nothing of it was quoted: only so are reserved words and operators recognised.
    /// A line that goes on in the next is put together before that.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Literal { text, is_quoted: false }]
                if *text == self.source || *text == self.source.replace("\\\n", "") =>
            {
                Some(text)
            }
            [Part::Brace('{')] => Some("{"),
            [Part::Brace('}')] => Some("}"),
            [Part::Brace(_)] => Some(","),
            _ => None,
        }
    }

    /// Whether a brace expansion may make several words of it: `{a,b}`, `{1..3}`. A lone `{}` is none.
    pub(super) fn has_braces(&self) -> bool {
        let mut is_open = false;
        let mut is_list = false;
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Brace('{') => is_open = true,
                Part::Brace(',') => is_list |= is_open,
                Part::Brace('}') if is_list => return true,
                Part::Literal { text, .. } if is_open && text.contains("..") => is_list = true,
                // `..` may lie across a quoted and an unquoted piece.
                Part::Literal { text, .. } if is_open && text.ends_with('.') => {
                    let next = self.parts.get(index + 1);
                    is_list |=
                        matches!(next, Some(Part::Literal { text, .. }) if text.starts_with('.'));
                }
                _ => {}
            }
        }
        false
    }
}
