//! What is said at the terminal about one request, as plain text in and out. Everything that comes from the call is
//! made safe and kept behind a bar, so that it can neither redraw the question nor pass for a part of it.

use std::borrow::Cow;

use haft_core::{Access, ApprovalRequest, Preview, Remember, Scope, Verdict};

use crate::{
    environment::Colours,
    safe_text::{shown, shown_in_line},
    terminal::{Tone, in_tone},
};

/// What fits a screen beside the choices.
const MOST_LINES: usize = 12;
const LONGEST_LINE: usize = 160;

pub(super) struct Conversation<'a> {
    request: &'a ApprovalRequest,
    person: &'a str,
    colours: Colours,
    /// What a yes for the session would save; empty when that is not on offer.
    session_rules: Vec<String>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Choice,
    Words,
}

pub(super) enum Reaction {
    Say(String),
    Decide(Verdict),
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        request: &'a ApprovalRequest,
        scopes: &[Scope],
        person: &'a str,
        colours: Colours,
    ) -> Self {
        let session_rules =
            if scopes.contains(&Scope::Session) { session_rules(request) } else { Vec::new() };
        Self { request, person, colours, session_rules, state: State::Choice }
    }

    /// The question.
    pub(super) fn opening(&self) -> String {
        let mut lines = vec![self.heading()];
        lines.extend(self.touched().into_iter().take(MOST_LINES).map(|line| format!("  {line}")));
        lines.extend(self.preview(Extent::Brief));
        lines.push(format!("  why: {}", shown_in_line(&self.request.reason)));
        format!("\n{}\n{}", lines.join("\n"), self.choices())
    }

    /// One line of answer, and what becomes of it.
    pub(super) fn hear(&mut self, line: &str) -> Reaction {
        if self.state == State::Words {
            let words = Some(line.trim().to_owned()).filter(|words| !words.is_empty());
            return Reaction::Decide(Verdict::deny(self.person, "terminal", words));
        }
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        match (word.to_lowercase().as_str(), rest.trim()) {
            ("y" | "yes", "") => Reaction::Decide(Verdict::approve(self.person, "terminal")),
            ("s", "") if !self.session_rules.is_empty() => Reaction::Decide(self.for_the_session()),
            ("n" | "no", "") => Reaction::Decide(Verdict::deny(self.person, "terminal", None)),
            ("w", "") => {
                self.state = State::Words;
                Reaction::Say("  what should be done instead?\n> ".to_owned())
            }
            ("w", words) => {
                Reaction::Decide(Verdict::deny(self.person, "terminal", Some(words.to_owned())))
            }
            ("v", "") => Reaction::Say(self.everything()),
            _ => Reaction::Say(self.choices()),
        }
    }

    fn heading(&self) -> String {
        let request = self.request;
        let title = format!("{} ({})", shown_in_line(&request.title), request.confirmation.effect);
        let agents = request.agents.join(" > ");
        let whom = if agents.is_empty() { String::new() } else { format!(", by agent {agents}") };
        format!("haft asks: {}{}", self.toned(Tone::Strong, &title), shown_in_line(&whom))
    }

    fn touched(&self) -> Vec<String> {
        let is_command = matches!(self.request.preview, Preview::Command(_));
        let accesses = self.request.accesses.iter();
        // The preview shows commands as they are.
        let accesses = accesses.filter(|access| !(is_command && matches!(access, Access::Run(_))));
        accesses.map(|access| cut(&shown_in_line(&access.to_string()))).collect()
    }

    fn preview(&self, extent: Extent) -> Vec<String> {
        let preview = &self.request.preview;
        let text = shown(preview.text());
        let all: Vec<&str> = text.lines().collect();
        let n_shown = match extent {
            Extent::Brief => MOST_LINES,
            Extent::Whole => all.len(),
        };
        let line = |line: &&str| {
            let text = match extent {
                Extent::Brief => Cow::Owned(cut(line)),
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
        let n_hidden = self.touched().len().saturating_sub(MOST_LINES);
        if n_more + n_hidden > 0 && extent == Extent::Brief {
            lines.push(format!("  … {} more lines, v to view", n_more + n_hidden));
        }
        lines
    }

    fn everything(&self) -> String {
        let touched = self.touched().into_iter().map(|line| format!("  {line}"));
        let lines = touched.chain(self.preview(Extent::Whole)).chain(self.arguments());
        format!("{}\n{}", lines.collect::<Vec<_>>().join("\n"), self.choices())
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

    fn choices(&self) -> String {
        let key = |key: &str, meaning: &str| format!("{} {meaning}", self.toned(Tone::Strong, key));
        let mut choices = vec![key("[y]", "yes, once")];
        if !self.session_rules.is_empty() {
            let rules = shown_in_line(&self.session_rules.join(", ")).into_owned();
            choices.push(key("[s]", &format!("yes, for this session: {rules}")));
        }
        choices.extend([key("[n]", "no"), key("[w]", "no, with words"), key("[v]", "view all")]);
        let seconds = self.request.expires_ms.saturating_sub(self.request.created_ms) / 1000;
        let time =
            if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        format!("  {}   ({time})\n> ", choices.join("   "))
    }

    fn for_the_session(&self) -> Verdict {
        let rules = self.session_rules.clone();
        let remember = Remember { rules, scope: Scope::Session, expires_ms: None };
        Verdict { remember: Some(remember), ..Verdict::approve(self.person, "terminal") }
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        if self.colours == Colours::Welcome { in_tone(tone, text) } else { text.to_owned() }
    }
}

/// How much of a preview is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Brief,
    Whole,
}

/// For one access the widest of the rules that are suggested; for several all of them, since a rule for one would not
/// keep the question from coming back. All are shown before they are saved.
fn session_rules(request: &ApprovalRequest) -> Vec<String> {
    const MOST: usize = 4;
    let suggestions = &request.suggestions;
    match request.accesses.len() {
        0 | 1 => suggestions.last().cloned().into_iter().collect(),
        _ if suggestions.len() <= MOST => suggestions.clone(),
        _ => Vec::new(),
    }
}

fn cut(line: &str) -> String {
    if line.chars().count() <= LONGEST_LINE {
        return line.to_owned();
    }
    let beginning: String = line.chars().take(LONGEST_LINE).collect();
    format!("{beginning}… (v to view)")
}

#[cfg(test)]
mod tests {
    use haft_core::{Confirmation, Effect};
    use serde_json::json;

    use super::*;

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
            reason: "mode `safe` asks before: write src/a.rs".into(),
            suggestions: vec!["write(src/a.rs)".into(), "write(src/**)".into()],
            created_ms: 0,
            expires_ms: 600_000,
        }
    }

    fn sample() -> ApprovalRequest {
        let preview = Preview::Input("{\n  \"path\": \"src/a.rs\"\n}".into());
        request(vec![Access::Write("src/a.rs".into())], preview)
    }

    fn opening(request: &ApprovalRequest, scopes: &[Scope]) -> String {
        Conversation::new(request, scopes, "ada", Colours::Unwanted).opening()
    }

    #[test]
    fn a_question_fits_on_a_screen() {
        insta::assert_snapshot!(opening(&sample(), &[]).trim(), @r#"
        haft asks: Write file (write)
          write src/a.rs
          | {
          |   "path": "src/a.rs"
          | }
          why: mode `safe` asks before: write src/a.rs
          [y] yes, once   [n] no   [w] no, with words   [v] view all   (10 min)
        >
        "#);
    }

    #[test]
    fn the_session_is_offered_only_where_it_outlives_the_call() {
        assert!(!opening(&sample(), &[]).contains("[s]"));
        let offered = opening(&sample(), &[Scope::Session]);
        assert!(offered.contains("[s] yes, for this session: write(src/**)"), "{offered}");
    }

    #[test]
    fn commands_and_agents_are_shown() {
        let command = "cargo test --all".to_owned();
        let mut request = request(vec![Access::Run(command.clone())], Preview::Command(command));
        request.agents = vec!["lead".into(), "tester".into()];
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        let text = talk.opening();
        assert!(text.contains("by agent lead > tester\n  $ cargo test --all\n  why:"), "{text}");
        let Reaction::Say(all) = talk.hear("v") else { panic!("v decides nothing") };
        assert!(all.contains("  $ cargo test --all\n  | {\n"), "the arguments too: {all}");
    }

    #[test]
    fn long_previews_are_cut_and_can_be_viewed() {
        let long: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let request = request(Vec::new(), Preview::Input(long + &"x".repeat(500)));
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        let text = talk.opening();
        assert!(text.contains("| line 12\n  … 19 more lines, v to view"), "{text}");
        let Reaction::Say(all) = talk.hear("v") else { panic!("v decides nothing") };
        assert!(all.contains("| line 30\n") && all.contains(&"x".repeat(500)), "{all}");
        assert!(all.contains("[y] yes"), "and the choices come again: {all}");
    }

    #[test]
    fn nothing_from_the_call_can_forge_the_question() {
        let forged = "a\n  why: it is harmless\n  [y] yes\u{1b}[2K\u{202e}";
        let mut request =
            request(vec![Access::Write(forged.into())], Preview::Input(forged.into()));
        request.agents = vec![forged.into()];
        request.reason = forged.into();
        let text = opening(&request, &[Scope::Session]);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        let whys = text.lines().filter(|line| line.starts_with("  why:")).count();
        let choices = text.lines().filter(|line| line.starts_with("  [y]")).count();
        assert_eq!((whys, choices), (1, 1), "{text}");
    }

    #[test]
    fn answers_are_understood_or_asked_again() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[Scope::Session], "ada", Colours::Unwanted);
        let decided = |reaction: Reaction| match reaction {
            Reaction::Decide(verdict) => Some(verdict),
            Reaction::Say(_) => None,
        };
        for unclear in ["", "maybe", "yes please", "Y E S", "y n"] {
            assert!(decided(talk.hear(unclear)).is_none(), "{unclear}");
        }
        assert_eq!(decided(talk.hear(" Yes ")), Some(Verdict::approve("ada", "terminal")));
        assert_eq!(decided(talk.hear("n")), Some(Verdict::deny("ada", "terminal", None)));
        let session = decided(talk.hear("s")).and_then(|verdict| verdict.remember);
        assert_eq!(session.map(|remember| remember.rules), Some(vec!["write(src/**)".to_owned()]));
        let words = decided(talk.hear("w use b.rs")).and_then(|verdict| verdict.note);
        assert_eq!(words.as_deref(), Some("use b.rs"));
        assert!(decided(talk.hear("w")).is_none());
        let words = decided(talk.hear("yes, but later")).and_then(|verdict| verdict.note);
        assert_eq!(words.as_deref(), Some("yes, but later"), "words are words, whatever they say");
    }

    #[test]
    fn without_a_session_s_is_no_answer() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        assert!(matches!(talk.hear("s"), Reaction::Say(_)));
    }
}
