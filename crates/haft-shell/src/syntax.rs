//! The syntax tree of a shell text: [`super::parse`] builds it and [`super::walk`] visits it.

/// Statements in order.
#[derive(Debug, Default)]
pub(super) struct StatementList {
    pub(super) statements: Vec<Statement>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) pipelines: Vec<(Connector, Vec<SyntaxNode>)>,
    pub(super) is_background: bool,
}

/// The connection of a pipeline to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connector {
    First,
    And,
    Or,
}

/// One element of a pipeline.
#[derive(Debug)]
pub(super) struct SyntaxNode {
    pub(super) kind: SyntaxKind,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Debug)]
pub(super) enum SyntaxKind {
    Simple(Simple),
    /// `{ … }`, and any other list that runs once in the current shell.
    Group(StatementList),
    /// `( … )` or a coprocess: changes inside do not affect the outer shell.
    Subshell(StatementList),
    /// `if`: every list in order.
    If(Vec<StatementList>),
    /// `while`, `until`, `for`, `select`: the variable with its words, and the repeated lists.
    Loop {
        variable: Option<String>,
        words: Vec<SyntaxWord>,
        lists: Vec<StatementList>,
    },
    Case {
        subject: SyntaxWord,
        patterns: Vec<SyntaxWord>,
        lists: Vec<StatementList>,
    },
    Function {
        name: String,
        body: Box<SyntaxNode>,
    },
    /// `[[ … ]]`: its words, including the operators.
    Test(Vec<SyntaxWord>),
    /// `(( … ))` or the head of a C-like `for`.
    Arithmetic(Arithmetic),
}

#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<SyntaxWord>,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) values: Vec<SyntaxWord>,
    /// `name=(…)`, `name[…]=`: not one plain value.
    pub(super) is_array: bool,
    /// The source text.
    pub(super) source: String,
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) how: RedirectKind,
    pub(super) target: SyntaxWord,
    /// For a here-document: the index of its text.
    pub(super) here: Option<usize>,
    /// `{name}>`: the shell sets this variable.
    pub(super) variable: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectKind {
    Read,
    Write,
    ReadWrite,
    /// `<&` and `>&`: usually a descriptor, otherwise a file.
    Duplicate,
    /// A here-document or here-string.
    Here,
}

/// A word in the source text.
#[derive(Clone, Debug, Default)]
pub(super) struct SyntaxWord {
    pub(super) parts: Vec<WordPart>,
    pub(super) source: String,
    /// Offset of the word in the text.
    pub(super) start: usize,
}

#[derive(Clone, Debug)]
pub(super) enum WordPart {
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

/// The commands and words inside an expansion, in source order.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    pub(super) lists: Vec<StatementList>,
    pub(super) arithmetic: Vec<Arithmetic>,
    /// Words after the operator in `${x:-word}`.
    pub(super) words: Vec<SyntaxWord>,
    /// The variable that `${x:=…}` sets.
    pub(super) assigns: Option<String>,
    /// The variable that `${x[0]:=…}` makes an array.
    pub(super) list: Option<String>,
    pub(super) doubt: Option<&'static str>,
    /// True when the result is always a number: `$((…))`, `$?`, `$#`, `${#x}`, `$$`.
    pub(super) is_number: bool,
    /// The name, when the expansion is just `$x` or `${x}`.
    pub(super) variable: Option<String>,
}

/// An arithmetic expression: its names, which bash evaluates recursively, and its expansions.
#[derive(Debug, Default)]
pub(super) struct Arithmetic {
    pub(super) names: Vec<String>,
    pub(super) assigned: Vec<String>,
    /// Names with an index, which become arrays when they are set.
    pub(super) lists: Vec<String>,
    pub(super) parts: Vec<WordPart>,
}

impl SyntaxWord {
    /// Returns the text when every character is known and none is special. None with globs and
    /// expansions.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                WordPart::Literal { text: literal, .. } => text.push_str(literal),
                WordPart::Brace(brace) if !self.has_braces() => text.push(*brace),
                _ => return None,
            }
        }
        Some(text)
    }

    /// Returns the text when no part of it was quoted: only then are reserved words and operators
    /// recognised. Continued lines are joined first.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [WordPart::Literal { text, is_quoted: false }]
                if *text == self.source || *text == self.source.replace("\\\n", "") =>
            {
                Some(text)
            }
            [WordPart::Brace('{')] => Some("{"),
            [WordPart::Brace('}')] => Some("}"),
            [WordPart::Brace(_)] => Some(","),
            _ => None,
        }
    }

    /// Returns true when a brace expansion may make several words of it: `{a,b}`, `{1..3}`. A lone
    /// `{}` does not.
    pub(super) fn has_braces(&self) -> bool {
        let mut is_open = false;
        let mut is_list = false;
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                WordPart::Brace('{') => is_open = true,
                WordPart::Brace(',') => is_list |= is_open,
                WordPart::Brace('}') if is_list => return true,
                WordPart::Literal { text, .. } if is_open && text.contains("..") => is_list = true,
                // `..` may span a quoted and an unquoted piece.
                WordPart::Literal { text, .. } if is_open && text.ends_with('.') => {
                    let next = self.parts.get(index + 1);
                    is_list |= matches!(next, Some(WordPart::Literal { text, .. }) if text.starts_with('.'));
                }
                _ => {}
            }
        }
        false
    }
}
