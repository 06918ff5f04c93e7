//! The one door to the screen. Results go to standard output, words about them to standard error, questions to the
//! terminal itself; foreign text is made safe wherever a person's terminal would obey it. What to say is decided
//! elsewhere.

mod hidden;
mod keys;
mod screen;
mod tty;

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::{hidden::hidden_line, keys::Key, screen::Screen, tty::Tty};
use crate::{environment::Colours, safe_text::shown};

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Good,
    Warning,
    Faint,
    Strong,
}

/// What a line on standard error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Error,
    Warning,
    Note,
}

/// Where this process speaks, and to whom.
pub(crate) struct Terminal {
    out: Ear,
    err: Ear,
    status: Mutex<Status>,
}

#[derive(Clone, Copy)]
struct Ear {
    is_terminal: bool,
    takes_colours: bool,
}

#[derive(Default)]
struct Status {
    is_drawn: bool,
    /// While somebody is being asked, nothing may draw over the question.
    n_holds: usize,
}

/// Writes to standard output what is safe and needs no terminal to be known.
pub(crate) fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Terminal {
    pub(crate) fn new(colours: Colours) -> Self {
        let ear = |is_terminal: bool| Ear {
            is_terminal,
            takes_colours: is_terminal && colours == Colours::Welcome,
        };
        Self {
            out: ear(io::stdout().is_terminal()),
            err: ear(io::stderr().is_terminal()),
            status: Mutex::default(),
        }
    }

    /// Whether results are read by a person.
    pub(crate) fn shows_results(&self) -> bool {
        self.out.is_terminal
    }

    /// Whether words about results are read by a person.
    pub(crate) fn shows_words(&self) -> bool {
        self.err.is_terminal
    }

    /// A result, ended by a line end.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let text = if self.out.is_terminal { shown(text) } else { Cow::Borrowed(text) };
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write_out(&format!("{text}{end}"))
    }

    /// Help in clap's own colours. It holds no foreign text.
    pub(crate) fn print_help(&self, help: &clap::Error) -> io::Result<()> {
        let text = help.render();
        write_out(&if self.out.takes_colours { text.ansi().to_string() } else { text.to_string() })
    }

    /// A line about what went on.
    pub(crate) fn tell(&self, label: Label, text: &str) {
        let (word, tone) = match label {
            Label::Error => ("error:", Tone::Bad),
            Label::Warning => ("warning:", Tone::Warning),
            Label::Note => ("note:", Tone::Faint),
        };
        self.write_err(&format!("{} {}\n", self.toned(tone, word), self.safe(text)));
    }

    /// The next step, under an error.
    pub(crate) fn advise(&self, hint: &str) {
        self.write_err(&format!("  {} {}\n", self.toned(Tone::Strong, "next:"), self.safe(hint)));
    }

    /// Clap's complaint, in its own colours unless it quotes something a terminal would obey.
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

    /// Draws the one line that moves. It must hold no foreign control characters.
    pub(crate) fn draw_status(&self, line: &str) {
        let mut status = self.lock_status();
        if self.err.is_terminal && status.n_holds == 0 {
            status.is_drawn = true;
            // Wrapping is off meanwhile: a long line is cut by the terminal, so that one line is all there is to clear.
            self.write_err(&format!("\r\x1b[2K\x1b[?7l{line}\x1b[?7h"));
        }
    }

    /// Takes that line away for good: the screen is the outcome's.
    pub(crate) fn end_status(&self) {
        std::mem::forget(self.hold());
    }

    /// Keeps the moving line away until the hold is dropped.
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

    /// Whether results may have colours.
    pub(crate) fn result_colours(&self) -> Colours {
        if self.out.takes_colours { Colours::Welcome } else { Colours::Unwanted }
    }

    /// A piece of a result that stands out.
    pub(crate) fn result_toned(&self, tone: Tone, text: &str) -> String {
        if self.out.takes_colours { in_tone(tone, text) } else { text.to_owned() }
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        if self.err.takes_colours { in_tone(tone, text) } else { text.to_owned() }
    }

    /// Nobody can be told that standard error is closed.
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

/// The text as a terminal colours it.
pub(crate) fn in_tone(tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Bad => "31",
        Tone::Good => "32",
        Tone::Warning => "33",
        Tone::Faint => "2",
        Tone::Strong => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
