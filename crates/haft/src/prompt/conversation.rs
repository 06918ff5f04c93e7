//! The prompt for one approval request, as keys in and text out. Text that comes from the call is
//! made safe and indented behind a bar, so that it can neither redraw the prompt nor pass for a
//! part of it.

use std::{borrow::Cow, ffi::OsStr, path::Path};

use haft_core::{Access, ApprovalDecision, ApprovalRequest, Preview, Remember, Scope, Suggestion};
use jiff::Zoned;

use crate::{
    environment::Colours,
    safe_text::{shown, shown_in_line},
    terminal::{Key, Tone, in_tone, shorten},
};

/// Lines of a preview that fit a screen beside the choices.
const MAX_LINES: usize = 12;
const MAX_LINE_CHARS: usize = 160;
/// The question fits one line.
const MAX_TARGET_CHARS: usize = 60;
/// Much longer than a note that a person types; more is dropped.
const MAX_TYPED_CHARS: usize = 4096;

pub(crate) struct Conversation<'a> {
    request: &'a ApprovalRequest,
    person: &'a str,
    colours: Colours,
    /// The scopes of rules that may be saved here. Without any, no rule is offered.
    scopes: &'a [Scope],
    now: fn() -> Zoned,
    state: State,
}

enum State {
    Choice,
    /// The person types a note for the model; the call is denied with it.
    Note(String),
    /// A rule is chosen, by its index among the suggestions; its scope is not.
    Scope(usize),
    /// The same; the person types a scope and a time.
    TimeLimit(usize, String),
}

#[derive(Debug)]
pub(crate) enum Reaction {
    Say(String),
    Decide(ApprovalDecision),
    /// The person ended the input without a decision.
    End,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(
        request: &'a ApprovalRequest,
        scopes: &'a [Scope],
        person: &'a str,
        colours: Colours,
    ) -> Self {
        Self { request, person, colours, scopes, now: Zoned::now, state: State::Choice }
    }

    /// The question and everything that a person should see before the choices.
    pub(crate) fn opening(&self) -> String {
        format!("\n{}", self.brief())
    }

    /// The whole request without the choices.
    pub(crate) fn details(&self) -> String {
        let mut lines = self.heading();
        lines.extend(self.touched().into_iter().map(|line| format!("  {line}")));
        lines.extend(self.preview(Extent::Whole));
        lines.extend(self.arguments());
        lines.push(format!("  why: {}", shown_in_line(&self.request.reason)));
        format!("{}\n{}", lines.join("\n"), self.offers())
    }

    /// The request with its preview shortened, without the choices.
    pub(crate) fn brief(&self) -> String {
        let mut lines = self.heading();
        lines.extend(self.touched().into_iter().take(MAX_LINES).map(|line| format!("  {line}")));
        lines.extend(self.preview(Extent::Brief));
        lines.push(format!("  why: {}", shown_in_line(&self.request.reason)));
        format!("{}\n{}", lines.join("\n"), self.offers())
    }

    /// Handles the keys of one read. Where one key is an answer, several keys at once are none:
    /// they were typed ahead or pasted. Enter and unknown keys never decide anything.
    pub(crate) fn press(&mut self, keys: &[Key]) -> Reaction {
        if keys.contains(&Key::Interrupt) {
            return Reaction::End;
        }
        match &mut self.state {
            State::Choice => self.press_choice(only(keys)),
            State::Scope(index) => {
                let index = *index;
                self.press_scope(index, only(keys))
            }
            State::Note(text) => match typed(text, keys) {
                Typed::More(echo) => Reaction::Say(echo),
                Typed::Back => self.back(),
                Typed::Line(line) => {
                    let note = Some(line.trim().to_owned()).filter(|note| !note.is_empty());
                    Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", note))
                }
            },
            State::TimeLimit(index, text) => {
                let index = *index;
                match typed(text, keys) {
                    Typed::More(echo) => Reaction::Say(echo),
                    Typed::Back => self.back(),
                    Typed::Line(line) => match self.remember_for(index, &line) {
                        Some(decision) => Reaction::Decide(decision),
                        None => self.ask_time_limit(index),
                    },
                }
            }
        }
    }

    fn press_choice(&mut self, key: Option<&Key>) -> Reaction {
        let Some(Key::Letter(letter)) = key else { return self.ask_again() };
        match letter.to_ascii_lowercase() {
            'y' => Reaction::Decide(ApprovalDecision::approve(self.person, "terminal")),
            'n' => Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", None)),
            'w' => {
                self.state = State::Note(String::new());
                Reaction::Say(
                    "\n  what should be done instead? Enter denies, Esc goes back\n> ".into(),
                )
            }
            'v' => Reaction::Say(self.everything()),
            '?' => Reaction::Say(self.explanation()),
            digit => match self.offered_at(digit) {
                Some(index) => self.choose(index),
                None => self.ask_again(),
            },
        }
    }

    fn ask_again(&self) -> Reaction {
        Reaction::Say(format!("\n{}", self.choices()))
    }

    /// With one scope, the offer names it and nothing is left to choose.
    fn choose(&mut self, index: usize) -> Reaction {
        if let [only] = self.scopes {
            return Reaction::Decide(self.remember(index, *only, None));
        }
        self.state = State::Scope(index);
        Reaction::Say(self.scope_question(index))
    }

    fn press_scope(&mut self, index: usize, key: Option<&Key>) -> Reaction {
        let letter = match key {
            Some(Key::Letter(letter)) => letter.to_ascii_lowercase(),
            Some(Key::Escape) => return self.back(),
            _ => return Reaction::Say(self.scope_question(index)),
        };
        let scope = self.scopes.iter().find(|scope| scope_key(**scope) == letter);
        match (scope, letter) {
            (Some(scope), _) => Reaction::Decide(self.remember(index, *scope, None)),
            (None, 't') => self.ask_time_limit(index),
            (None, 'n') => Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", None)),
            (None, 'b') => self.back(),
            _ => Reaction::Say(self.scope_question(index)),
        }
    }

    fn ask_time_limit(&mut self, index: usize) -> Reaction {
        self.state = State::TimeLimit(index, String::new());
        let keys: Vec<String> =
            self.scopes.iter().map(|scope| format!("{} 1d", scope_key(*scope))).collect();
        let keys = keys.join(" or ");
        Reaction::Say(format!("\n  type scope and time, such as {keys}; Esc goes back\n> "))
    }

    fn back(&mut self) -> Reaction {
        self.state = State::Choice;
        Reaction::Say(format!("\n{}{}", self.offers(), self.choices()))
    }

    /// The decision to save a rule, from a line such as `p` or `u 1d`.
    pub(crate) fn remember_for(&self, index: usize, line: &str) -> Option<ApprovalDecision> {
        let (word, time) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let is_named = |scope: &&Scope| word.eq_ignore_ascii_case(&scope_key(**scope).to_string());
        let scope = self.scopes.iter().find(is_named)?;
        let expires_ms = super::lapse(time.trim(), &(self.now)())?;
        (index < self.on_offer().len()).then(|| self.remember(index, *scope, expires_ms))
    }

    fn remember(&self, index: usize, scope: Scope, expires_ms: Option<u64>) -> ApprovalDecision {
        let suggestion = self.request.suggestions.get(index);
        let rules = suggestion.map(|it| it.rules.clone()).unwrap_or_default();
        let remember = Some(Remember { rules, scope, expires_ms });
        ApprovalDecision { remember, ..ApprovalDecision::approve(self.person, "terminal") }
    }

    /// The rules that may be saved with an approval.
    fn on_offer(&self) -> &[Suggestion] {
        if self.scopes.is_empty() { &[] } else { &self.request.suggestions }
    }

    fn offered_at(&self, digit: char) -> Option<usize> {
        let index = usize::try_from(digit.to_digit(10)?).ok()?.checked_sub(1)?;
        (index < self.on_offer().len()).then_some(index)
    }

    fn offers(&self) -> String {
        let offers = self.on_offer();
        if offers.is_empty() {
            return String::new();
        }
        let all: Vec<String> = offers.iter().map(rules_of).collect();
        let width = all.iter().map(|rules| rules.chars().count()).max().unwrap_or_default();
        let line = |(place, (rules, offer)): (usize, (&String, &Suggestion))| {
            let key = self.toned(Tone::Strong, &format!("[{}]", place + 1));
            let past = offer.past.map(|past| self.toned(Tone::Faint, &past.to_string()));
            let line = format!("    {key} {rules:<width$}  {}", past.unwrap_or_default());
            line.trim_end().to_owned()
        };
        let lines = all.iter().zip(offers).enumerate().map(line).collect::<Vec<_>>().join("\n");
        let whole = match self.scopes {
            [only] => format!("yes, {}, to", scope_meaning(*only)),
            _ => "yes, and do not ask again for".to_owned(),
        };
        format!("  {whole}\n{lines}\n")
    }

    fn scope_question(&self, index: usize) -> String {
        let key = |key: char, meaning: &str| {
            format!("{} {meaning}", self.toned(Tone::Strong, &format!("[{key}]")))
        };
        let scopes = self.scopes.iter();
        let mut keys: Vec<String> =
            scopes.map(|scope| key(scope_key(*scope), scope_meaning(*scope))).collect();
        keys.extend([key('t', "with a time limit"), key('b', "back")]);
        let rules = self.request.suggestions.get(index).map(rules_of).unwrap_or_default();
        format!("\n  where is {rules} allowed?\n  {}\n> ", keys.join("   "))
    }

    /// The question, and the agents that ask.
    fn heading(&self) -> Vec<String> {
        let request = self.request;
        let question = self.toned(Tone::Strong, &question(request));
        let mut lines = vec![format!("{question} ({})", request.confirmation.effect)];
        if !request.agents.is_empty() {
            lines.push(format!("  for agent {}", shown_in_line(&request.agents.join(" > "))));
        }
        lines
    }

    fn touched(&self) -> Vec<String> {
        let is_command = matches!(self.request.preview, Preview::Command(_));
        let accesses = self.request.accesses.iter();
        // The preview shows commands as they are.
        let accesses = accesses.filter(|access| !(is_command && matches!(access, Access::Run(_))));
        accesses.map(|access| in_brief(&shown_in_line(&access.to_string()))).collect()
    }

    fn preview(&self, extent: Extent) -> Vec<String> {
        let preview = &self.request.preview;
        let text = shown(preview.text());
        let all: Vec<&str> = text.lines().collect();
        let n_shown = match extent {
            Extent::Brief => MAX_LINES,
            Extent::Whole => all.len(),
        };
        let line = |line: &&str| {
            let text = match extent {
                Extent::Brief => Cow::Owned(in_brief(line)),
                Extent::Whole => Cow::Borrowed(*line),
            };
            match preview {
                Preview::Command(_) => format!("  $ {text}"),
                Preview::Diff(_) => format!("  | {}", self.in_diff(&text)),
                _ => format!("  | {text}"),
            }
        };
        let mut lines: Vec<String> = all.iter().take(n_shown).map(line).collect();
        let n_more = all.len().saturating_sub(n_shown);
        let n_hidden = self.touched().len().saturating_sub(MAX_LINES);
        if n_more + n_hidden > 0 && extent == Extent::Brief {
            lines.push(format!("  … {} more lines, v to view", n_more + n_hidden));
        }
        lines
    }

    fn everything(&self) -> String {
        let touched = self.touched().into_iter().map(|line| format!("  {line}"));
        let lines = touched.chain(self.preview(Extent::Whole)).chain(self.arguments());
        format!("\n{}\n{}", lines.collect::<Vec<_>>().join("\n"), self.choices())
    }

    /// The arguments, where the preview is made from them but is not they.
    fn arguments(&self) -> Vec<String> {
        if matches!(self.request.preview, Preview::Input(_)) {
            return Vec::new();
        }
        let input = format!("{:#}", self.request.input);
        shown(&input).lines().map(|line| format!("  | {line}")).collect()
    }

    fn in_diff(&self, line: &str) -> String {
        match line.chars().next() {
            Some('+') => self.toned(Tone::Good, line),
            Some('-') => self.toned(Tone::Bad, line),
            _ => line.to_owned(),
        }
    }

    /// The last lines of the prompt. Keys that were pressed before they are shown are discarded.
    pub(crate) fn choices(&self) -> String {
        let key = |key: &str, meaning: &str| format!("{} {meaning}", self.toned(Tone::Strong, key));
        let mut choices = vec![key("[y]", "yes, once")];
        if let Some(numbers) = self.numbers() {
            choices.push(key(&format!("[{numbers}]"), "yes, from now on"));
        }
        choices.extend([
            key("[n]", "no"),
            key("[w]", "no, with a note"),
            key("[v]", "view all"),
            key("[?]", "help"),
        ]);
        format!("  {}   ({})\n> ", choices.join("   "), self.time_left())
    }

    /// The keys of the rules on offer.
    fn numbers(&self) -> Option<String> {
        match self.on_offer().len() {
            0 => None,
            1 => Some("1".to_owned()),
            count => Some(format!("1-{count}")),
        }
    }

    fn time_left(&self) -> String {
        let seconds = self.request.expires_ms.saturating_sub(self.request.created_ms) / 1000;
        if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
    }

    fn explanation(&self) -> String {
        let line = |key: &str, meaning: &str| {
            format!("  {}  {meaning}", self.toned(Tone::Strong, &format!("{key:<6}")))
        };
        let mut lines = vec![line("y", "run this call, once")];
        if let Some(numbers) = self.numbers() {
            let meaning = "run it, and save the rule with this number; you then choose its scope";
            lines.push(line(&numbers, meaning));
        }
        lines.extend([
            line("n", "do not run it"),
            line("w", "do not run it, and tell the model what to do instead"),
            line("v", "show everything: all lines of the preview, and the arguments"),
            line("Ctrl-C", "cancel the call"),
        ]);
        lines.push(format!(
            "  Enter and other keys do nothing. Without an answer the call does not run ({}).",
            self.time_left()
        ));
        format!("\n{}\n{}", lines.join("\n"), self.choices())
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        if self.colours.are_shown(true) { in_tone(tone, text) } else { text.to_owned() }
    }
}

/// How much of a preview is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Brief,
    Whole,
}

/// The rules of a suggestion, all of them and whole: nothing is saved that was not shown.
fn rules_of(suggestion: &Suggestion) -> String {
    shown_in_line(&suggestion.rules.join("  and  ")).into_owned()
}

fn scope_key(scope: Scope) -> char {
    match scope {
        Scope::Session => 's',
        Scope::Project => 'p',
        Scope::User => 'u',
    }
}

fn scope_meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "until this session ends",
        Scope::Project => "in this project",
        Scope::User => "everywhere",
    }
}

/// The question on one line: the tool and what it is used on.
fn question(request: &ApprovalRequest) -> String {
    if let Preview::Command(command) = &request.preview {
        return format!(
            "Approve command `{}`?",
            shorten(&shown_in_line(command), MAX_TARGET_CHARS)
        );
    }
    let tool = shown_in_line(&request.tool);
    let mut targets: Vec<String> = request.accesses.iter().filter_map(target).collect();
    targets.dedup();
    match targets.as_slice() {
        [] => format!("Approve {tool}?"),
        [only] => format!("Approve {tool} of {}?", shortened_target(only)),
        [first, rest @ ..] => {
            format!("Approve {tool} of {} and {} more?", shortened_target(first), rest.len())
        }
    }
}

fn target(access: &Access) -> Option<String> {
    let path = |path: &Path| shown_in_line(&path.to_string_lossy()).into_owned();
    match access {
        Access::Read(place) | Access::Write(place) | Access::Many { path: place, .. } => {
            Some(path(if place.as_os_str() == OsStr::new("") { Path::new(".") } else { place }))
        }
        Access::Fetch(url) => Some(shown_in_line(url).into_owned()),
        _ => None,
    }
}

/// The end of a long path says more than its beginning; the lines below the question show it whole.
fn shortened_target(target: &str) -> String {
    let n_chars = target.chars().count();
    if n_chars <= MAX_TARGET_CHARS {
        return target.to_owned();
    }
    let end: String = target.chars().skip(n_chars - MAX_TARGET_CHARS + 1).collect();
    format!("…{end}")
}

/// The one key that was pressed; Enter after it is ignored.
fn only(keys: &[Key]) -> Option<&Key> {
    match keys {
        [key] | [key, Key::Enter] => Some(key),
        _ => None,
    }
}

/// Result of typing into a line.
enum Typed {
    /// Text to show.
    More(String),
    Back,
    Line(String),
}

fn typed(text: &mut String, keys: &[Key]) -> Typed {
    let mut echo = String::new();
    for key in keys {
        let before = text.len();
        match key {
            Key::Letter(letter) => text.push(*letter),
            Key::Paste(pasted) => text.extend(pasted.chars().filter(|it| !it.is_control())),
            Key::Backspace => {
                text.pop();
                echo = format!("\r\x1b[K> {}", shown_in_line(text));
                continue;
            }
            Key::Escape => return Typed::Back,
            Key::Enter => return Typed::Line(std::mem::take(text)),
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Interrupt => {}
        }
        if text.chars().count() > MAX_TYPED_CHARS {
            text.truncate(before);
        }
        echo.push_str(&shown_in_line(text.get(before..).unwrap_or_default()));
    }
    Typed::More(echo)
}

fn in_brief(line: &str) -> String {
    if line.chars().count() <= MAX_LINE_CHARS {
        return line.to_owned();
    }
    let beginning: String = line.chars().take(MAX_LINE_CHARS).collect();
    format!("{beginning}… (v to view)")
}

#[cfg(test)]
mod tests {
    use haft_core::{Confirmation, Effect, PromptsAvoided};
    use serde_json::json;

    use super::*;

    fn suggestion(rules: &[&str], past: Option<PromptsAvoided>) -> Suggestion {
        Suggestion { rules: rules.iter().map(ToString::to_string).collect(), past }
    }

    fn request(accesses: Vec<Access>, preview: Preview) -> ApprovalRequest {
        let touched: Vec<String> = accesses.iter().map(Access::to_string).collect();
        ApprovalRequest {
            id: "ask_1".into(),
            call_id: "call_1".into(),
            session: "s".into(),
            agents: Vec::new(),
            profile: None,
            tool: "write".into(),
            title: "Write file".into(),
            input: json!({"path": "src/a.rs"}),
            confirmation: Confirmation {
                required: true,
                message: format!("Write file: {}", touched.join(", ")),
                effect: Effect::Write,
            },
            accesses,
            preview,
            reason: "mode `safe`: write src/a.rs".into(),
            suggestions: vec![
                suggestion(&["write(src/a.rs)"], None),
                suggestion(&["write(src/**)"], Some(PromptsAvoided { spared: 3, asked: 12 })),
            ],
            created_ms: 0,
            expires_ms: 600_000,
        }
    }

    fn sample() -> ApprovalRequest {
        let preview = Preview::Input("{\n  \"path\": \"src/a.rs\"\n}".into());
        request(vec![Access::Write("src/a.rs".into())], preview)
    }

    fn opening(request: &ApprovalRequest, scopes: &[Scope]) -> String {
        let talk = Conversation::new(request, scopes, "ada", Colours::Unwanted);
        format!("{}{}", talk.opening(), talk.choices())
    }

    #[test]
    fn a_prompt_starts_with_the_question_and_fits_a_screen() {
        insta::assert_snapshot!(opening(&sample(), &[]).trim(), @r#"
        Approve write of src/a.rs? (write)
          write src/a.rs
          | {
          |   "path": "src/a.rs"
          | }
          why: mode `safe`: write src/a.rs
          [y] yes, once   [n] no   [w] no, with a note   [v] view all   [?] help   (10 min)
        >
        "#);
    }

    const SCOPES: &[Scope] = &[Scope::Session, Scope::Project, Scope::User];

    fn decided(reaction: Reaction) -> Option<ApprovalDecision> {
        match reaction {
            Reaction::Decide(decision) => Some(decision),
            Reaction::Say(_) | Reaction::End => None,
        }
    }

    fn saved(reaction: Reaction) -> Option<Remember> {
        decided(reaction).and_then(|decision| decision.remember)
    }

    #[track_caller]
    fn said(reaction: Reaction) -> String {
        match reaction {
            Reaction::Say(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Presses the keys of a text, one after the other.
    fn press(talk: &mut Conversation<'_>, keys: &str) -> Reaction {
        let key = |letter| match letter {
            '\n' => Key::Enter,
            letter => Key::Letter(letter),
        };
        let mut last = Reaction::End;
        for letter in keys.chars() {
            last = talk.press(&[key(letter)]);
        }
        last
    }

    fn noon() -> Zoned {
        let noon: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
        noon.to_zoned(jiff::tz::TimeZone::UTC)
    }

    #[test]
    fn rules_on_offer_come_before_the_choices() {
        assert!(!opening(&sample(), &[]).contains("[1"), "no scope, no rule");
        insta::assert_snapshot!(opening(&sample(), SCOPES).trim(), @r#"
        Approve write of src/a.rs? (write)
          write src/a.rs
          | {
          |   "path": "src/a.rs"
          | }
          why: mode `safe`: write src/a.rs
          yes, and do not ask again for
            [1] write(src/a.rs)
            [2] write(src/**)    would have avoided 3 of the last 12 prompts
          [y] yes, once   [1-2] yes, from now on   [n] no   [w] no, with a note   [v] view all   [?] help   (10 min)
        >
        "#);
        let offered = opening(&sample(), &[Scope::Project]);
        assert!(
            offered.contains("\n  yes, in this project, to\n    [1] write(src/a.rs)\n"),
            "{offered}"
        );
    }

    #[test]
    fn the_question_names_what_the_tool_is_used_on() {
        let input = || Preview::Input(String::new());
        let question =
            |accesses: &[Access], preview: Preview| question(&request(accesses.to_vec(), preview));
        let write = |path: &str| Access::Write(path.into());
        assert_eq!(question(&[], input()), "Approve write?");
        assert_eq!(
            question(&[Access::Read("app.py".into()), write("app.py")], input()),
            "Approve write of app.py?"
        );
        assert_eq!(
            question(&[write("a"), write("b"), write("c")], input()),
            "Approve write of a and 2 more?"
        );
        assert_eq!(
            question(&[Access::Fetch("https://a.example/".into())], input()),
            "Approve write of https://a.example/?"
        );
        let command = Preview::Command("cargo test\nrm x".into());
        assert_eq!(question(&[write("a")], command), "Approve command `cargo test␊rm x`?");
        let long = question(&[write(&format!("{}/end.rs", "a/".repeat(100)))], input());
        assert!(long.starts_with("Approve write of …") && long.ends_with("/end.rs?"), "{long}");
    }

    #[test]
    fn a_number_asks_for_the_scope_and_a_letter_decides() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        let asked = said(press(&mut talk, "2"));
        insta::assert_snapshot!(asked.trim(), @"
        where is write(src/**) allowed?
          [s] until this session ends   [p] in this project   [u] everywhere   [t] with a time limit   [b] back
        >
        ");
        for unclear in ["\n", "x", "y", "2", "1"] {
            assert_eq!(said(press(&mut talk, unclear)), asked, "{unclear}");
        }
        let rules = vec!["write(src/**)".to_owned()];
        let project = Remember { rules, scope: Scope::Project, expires_ms: None };
        assert_eq!(saved(press(&mut talk, "p")), Some(project));
    }

    #[test]
    fn a_rule_may_have_a_time_limit() {
        let request = sample();
        let check = |keys: &str, expected: Option<(&str, Scope, Option<u64>)>| {
            let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
            talk.now = noon;
            let remember = saved(press(&mut talk, keys));
            let found = remember.as_ref().map(|it| (it.rules[0].as_str(), it.scope, it.expires_ms));
            assert_eq!(found, expected, "{keys}");
        };
        let noon = 1_772_366_400_000;
        check("1s", Some(("write(src/a.rs)", Scope::Session, None)));
        check("2tP never\n", Some(("write(src/**)", Scope::Project, None)));
        check("2tu 1h\n", Some(("write(src/**)", Scope::User, Some(noon + 3_600_000))));
        check("1tp 30d\n", Some(("write(src/a.rs)", Scope::Project, Some(noon + 30 * 86_400_000))));
        for nothing in
            ["0", "3", "1t\n", "1tp 1h please\n", "1t1h\n", "1tp -1h\n", "1tp 0d\n", "3p"]
        {
            check(nothing, None);
        }
    }

    #[test]
    fn one_can_go_back_or_deny_after_all() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        let again = said(press(&mut talk, "1b"));
        assert!(again.contains("[2] write(src/**)") && again.contains("[y] yes, once"), "{again}");
        assert!(press_all(&mut talk, "1tp 1", &Key::Escape).contains("[y] yes, once"));
        assert!(press_all(&mut talk, "wy", &Key::Escape).contains("[y] yes, once"));
        assert_eq!(
            decided(press(&mut talk, "y")),
            Some(ApprovalDecision::approve("ada", "terminal"))
        );
        let denied = decided(press(&mut talk, "1n"));
        assert_eq!(denied, Some(ApprovalDecision::deny("ada", "terminal", None)));
    }

    #[track_caller]
    fn press_all(talk: &mut Conversation<'_>, keys: &str, last: &Key) -> String {
        press(talk, keys);
        said(talk.press(std::slice::from_ref(last)))
    }

    #[test]
    fn with_one_scope_a_number_decides() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[Scope::User], "ada", Colours::Unwanted);
        let user = |reaction| saved(reaction).map(|it| (it.scope, it.expires_ms));
        assert_eq!(user(press(&mut talk, "1")), Some((Scope::User, None)));
        assert_eq!(user(press(&mut talk, "3")), None);
    }

    #[test]
    fn a_set_of_rules_is_saved_together_and_shown_whole() {
        let mut request = sample();
        let long = format!("write({}/**)", "x".repeat(300));
        request.suggestions = vec![suggestion(&["bash(make)", &long], None)];
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        assert!(talk.opening().contains(&format!("[1] bash(make)  and  {long}\n")));
        let rules = saved(press(&mut talk, "1p")).map(|remember| remember.rules);
        assert_eq!(rules, Some(vec!["bash(make)".to_owned(), long]));
    }

    #[test]
    fn commands_and_agents_are_shown() {
        let command = "cargo test --all".to_owned();
        let mut request = request(vec![Access::Run(command.clone())], Preview::Command(command));
        request.agents = vec!["lead".into(), "tester".into()];
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        let text = talk.opening();
        let expected = "  for agent lead > tester\n  $ cargo test --all\n  why:";
        assert!(text.contains(expected), "{text}");
        let all = said(press(&mut talk, "v"));
        assert!(all.contains("  $ cargo test --all\n  | {\n"), "the arguments too: {all}");
    }

    #[test]
    fn long_previews_are_shortened_and_can_be_viewed() {
        let long: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let request = request(Vec::new(), Preview::Input(long + &"x".repeat(500)));
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        let text = talk.opening();
        assert!(text.contains("| line 12\n  … 19 more lines, v to view"), "{text}");
        let all = said(press(&mut talk, "v"));
        assert!(all.contains("| line 30\n") && all.contains(&"x".repeat(500)), "{all}");
        assert!(all.contains("[y] yes"), "and the choices come again: {all}");
    }

    #[test]
    fn nothing_from_the_call_can_forge_the_prompt() {
        let forged = "a\n  why: it is harmless\n  [y] yes\u{1b}[2K\u{202e}";
        let mut request =
            request(vec![Access::Write(forged.into())], Preview::Input(forged.into()));
        request.agents = vec![forged.into()];
        request.reason = forged.into();
        request.tool = forged.into();
        request.suggestions = vec![suggestion(&[forged], None)];
        let text = opening(&request, SCOPES);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        let whys = text.lines().filter(|line| line.starts_with("  why:")).count();
        let choices = text.lines().filter(|line| line.starts_with("  [y]")).count();
        assert_eq!((whys, choices), (1, 1), "{text}");
    }

    #[test]
    fn only_one_known_key_decides() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        let letters = |text: &str| text.chars().map(Key::Letter).collect::<Vec<_>>();
        let unclear = [
            vec![Key::Enter],
            vec![Key::Escape],
            vec![Key::Up],
            vec![Key::Paste("y".into())],
            vec![Key::Enter, Key::Letter('y')],
            vec![],
            letters("x"),
            letters(" "),
            letters("yes"),
            letters("yy"),
            letters("0"),
        ];
        for keys in unclear {
            assert_eq!(said(talk.press(&keys)), format!("\n{}", talk.choices()), "{keys:?}");
        }
        let approved = Some(ApprovalDecision::approve("ada", "terminal"));
        assert_eq!(decided(talk.press(&letters("Y"))), approved);
        assert_eq!(decided(talk.press(&[Key::Letter('y'), Key::Enter])), approved);
        assert_eq!(
            decided(press(&mut talk, "n")),
            Some(ApprovalDecision::deny("ada", "terminal", None))
        );
    }

    #[test]
    fn the_end_of_input_decides_nothing() {
        let request = sample();
        for before in ["", "1", "1t", "w", "?"] {
            let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
            press(&mut talk, before);
            assert!(matches!(talk.press(&[Key::Interrupt]), Reaction::End), "{before}");
            let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
            press(&mut talk, before);
            let both = [Key::Letter('y'), Key::Interrupt];
            assert!(matches!(talk.press(&both), Reaction::End), "{before}");
        }
    }

    #[test]
    fn a_note_is_typed_and_denies() {
        let request = sample();
        let new = || Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        let note = |reaction| decided(reaction).map(|it| (it.approved, it.note));
        let expected = |text: &str| Some((false, Some(text.to_owned())));
        assert_eq!(note(press(&mut new(), "wyes, but later\n")), expected("yes, but later"));
        let mut talk = new();
        press(&mut talk, "w");
        assert_eq!(said(talk.press(&[Key::Letter('a'), Key::Letter('\u{202e}')])), "a\\u{202e}");
        assert_eq!(said(talk.press(&[Key::Backspace])), "\r\x1b[K> a");
        talk.press(&[Key::Paste(" b\n\u{1b}c".into())]);
        assert_eq!(note(talk.press(&[Key::Enter])), expected("a bc"));
        assert_eq!(note(press(&mut new(), "w\n")), Some((false, None)));
    }

    #[test]
    fn a_question_mark_explains_the_choices() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        insta::assert_snapshot!(said(press(&mut talk, "?")).trim(), @"
        y       run this call, once
          1-2     run it, and save the rule with this number; you then choose its scope
          n       do not run it
          w       do not run it, and tell the model what to do instead
          v       show everything: all lines of the preview, and the arguments
          Ctrl-C  cancel the call
          Enter and other keys do nothing. Without an answer the call does not run (10 min).
          [y] yes, once   [1-2] yes, from now on   [n] no   [w] no, with a note   [v] view all   [?] help   (10 min)
        >
        ");
    }

    #[test]
    fn without_a_scope_a_number_is_no_answer() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        assert!(matches!(press(&mut talk, "1"), Reaction::Say(_)));
        assert!(matches!(press(&mut talk, "p"), Reaction::Say(_)));
        assert_eq!(talk.remember_for(0, "p"), None);
    }
}
