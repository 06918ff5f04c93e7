//! All output to a person. Results go to standard output, messages about them to standard error,
//! questions to the terminal itself. Foreign text is made safe wherever a terminal would interpret
//! it.

mod diff;
mod hidden;
mod keys;
mod screen;
mod tty;

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use clap::builder::StyledStr;
use parking_lot::{Mutex, MutexGuard};
use rustix::termios::tcgetwinsize;

pub(crate) use self::{
    hidden::hidden_line,
    keys::{Key, Keys},
    screen::Screen,
    tty::{Tty, restore_terminal},
};
use crate::{environment::Colours, safe_text::shown};

/// Style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Good,
    Warning,
    Faint,
    Strong,
    /// The heading of a part of a help page.
    Heading,
}

/// Label of a line on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Error,
    Warning,
    Note,
}

/// The output streams of this process.
pub(crate) struct Terminal {
    out: OutputStream,
    err: OutputStream,
    columns: Option<usize>,
    status: Mutex<Status>,
}

#[derive(Clone, Copy)]
struct OutputStream {
    is_terminal: bool,
    takes_colours: bool,
}

#[derive(Default)]
struct Status {
    is_drawn: bool,
    /// Open approval prompts; nothing may draw over them.
    n_holds: usize,
}

/// Writes safe text to standard output.
pub(crate) fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Terminal {
    /// `columns` is the width that the environment asks for.
    pub(crate) fn new(colours: Colours, columns: Option<usize>) -> Self {
        let stream = |is_terminal: bool| OutputStream {
            is_terminal,
            takes_colours: colours.are_shown(is_terminal),
        };
        Self {
            out: stream(io::stdout().is_terminal()),
            err: stream(io::stderr().is_terminal()),
            columns,
            status: Mutex::default(),
        }
    }

    /// Columns that lines of a result may take; none in a pipe, where lines stay whole.
    pub(crate) fn width(&self) -> Option<usize> {
        self.columns.or_else(|| {
            let size = self.out.is_terminal.then(|| tcgetwinsize(io::stdout()).ok()).flatten()?;
            Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
        })
    }

    /// Reports whether standard output is a terminal.
    pub(crate) fn shows_results(&self) -> bool {
        self.out.is_terminal
    }

    /// Reports whether standard error is a terminal.
    pub(crate) fn shows_words(&self) -> bool {
        self.err.is_terminal
    }

    /// Prints a result and ends its line.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let text = if self.out.is_terminal { shown(text) } else { Cow::Borrowed(text) };
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write_out(&format!("{text}{end}"))
    }

    /// Prints the result of a call, its diffs in colour.
    pub(crate) fn print_result(&self, text: &str) -> io::Result<()> {
        if !self.out.takes_colours {
            return self.print(text);
        }
        let text = if self.out.is_terminal { shown(text) } else { Cow::Borrowed(text) };
        let text = diff::coloured(&text);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write_out(&format!("{text}{end}"))
    }

    /// Prints a page of ours, whose styles are escape codes; they are removed where colours are not
    /// shown.
    pub(crate) fn print_page(&self, page: &str) -> io::Result<()> {
        let text = StyledStr::from(page.to_owned());
        write_out(&if self.out.takes_colours { text.ansi().to_string() } else { text.to_string() })
    }

    /// Prints help in clap's own colours. It has no foreign text.
    pub(crate) fn print_help(&self, help: &clap::Error) -> io::Result<()> {
        let text = help.render();
        write_out(&if self.out.takes_colours { text.ansi().to_string() } else { text.to_string() })
    }

    /// Prints a message to standard error.
    pub(crate) fn tell(&self, label: Label, text: &str) {
        let (word, tone) = match label {
            Label::Error => ("error:", Tone::Bad),
            Label::Warning => ("warning:", Tone::Warning),
            Label::Note => ("note:", Tone::Faint),
        };
        self.write_err(&format!("{} {}\n", self.toned(tone, word), self.safe(text)));
    }

    /// Prints the next step, under an error.
    pub(crate) fn advise(&self, hint: &str) {
        self.write_err(&format!("  {} {}\n", self.toned(Tone::Strong, "next:"), self.safe(hint)));
    }

    /// Prints an error of clap, in clap's colours unless it quotes something that a terminal would
    /// interpret.
    pub(crate) fn complain(&self, complaint: &clap::Error) {
        let text = complaint.render();
        let plain = text.to_string();
        let is_harmless = matches!(shown(&plain), Cow::Borrowed(_));
        if self.err.takes_colours && is_harmless {
            self.write_err(&text.ansi().to_string());
        } else {
            self.write_err(&self.safe(&plain));
        }
    }

    /// Draws the status line. It must not have foreign control characters.
    pub(crate) fn draw_status(&self, line: &str) {
        let mut status = self.lock_status();
        if self.err.is_terminal && status.n_holds == 0 {
            status.is_drawn = true;
            // Wrapping is off while it is drawn: the terminal truncates a long line, so that there
            // is only one line to clear.
            self.write_err(&format!("\r\x1b[2K\x1b[?7l{line}\x1b[?7h"));
        }
    }

    /// Clears the status line for good, before the outcome is printed.
    pub(crate) fn end_status(&self) {
        std::mem::forget(self.hold());
    }

    /// Clears the status line and keeps it away until the hold is dropped.
    pub(crate) fn hold(&self) -> Hold<'_> {
        let mut status = self.lock_status();
        self.clear(&mut status);
        status.n_holds += 1;
        Hold(self)
    }

    fn clear(&self, status: &mut Status) {
        if std::mem::take(&mut status.is_drawn) {
            self.write_err("\r\x1b[2K");
        }
    }

    fn lock_status(&self) -> MutexGuard<'_, Status> {
        self.status.lock()
    }

    fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.err.is_terminal { shown(text) } else { Cow::Borrowed(text) }
    }

    /// Whether results have colours.
    pub(crate) fn result_colours(&self) -> Colours {
        if self.out.takes_colours { Colours::Welcome } else { Colours::Unwanted }
    }

    /// Styles a piece of a result.
    pub(crate) fn result_toned(&self, tone: Tone, text: &str) -> String {
        if self.out.takes_colours { in_tone(tone, text) } else { text.to_owned() }
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        if self.err.takes_colours { in_tone(tone, text) } else { text.to_owned() }
    }

    /// An error is ignored: there is no other stream to report it to.
    fn write_err(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// See [`Terminal::hold`].
pub(crate) struct Hold<'a>(&'a Terminal);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.lock_status().n_holds -= 1;
    }
}

/// Shortens a line to `max_chars` characters.
pub(crate) fn shorten(line: &str, max_chars: usize) -> String {
    if line.chars().count() <= max_chars {
        return line.to_owned();
    }
    let beginning: String = line.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", beginning.trim_end())
}

/// The text with the escape codes of its style.
pub(crate) fn in_tone(tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Bad => "31",
        Tone::Good => "32",
        Tone::Warning => "33",
        Tone::Faint => "2",
        Tone::Strong => "1",
        Tone::Heading => "1;4",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
