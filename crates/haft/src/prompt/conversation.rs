//! What is said at the terminal about one request, as plain text in and out. Everything that comes from the call is
//! made safe and kept behind a bar, so that it can neither redraw the question nor pass for a part of it.

use std::borrow::Cow;

use haft_core::{Access, ApprovalDecision, ApprovalRequest, Preview, Remember, Scope, Suggestion};
use jiff::Zoned;

use crate::{
    environment::Colours,
    safe_text::{shown, shown_in_line},
    terminal::{Tone, in_tone},
};

/// What fits a screen beside the choices.
const MOST_LINES: usize = 12;
const LONGEST_LINE: usize = 160;

pub(crate) struct Conversation<'a> {
    request: &'a ApprovalRequest,
    person: &'a str,
    colours: Colours,
    /// For how long a yes may be remembered here; then the request's suggestions are on offer.
    scopes: &'a [Scope],
    now: fn() -> Zoned,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Choice,
    Words,
    /// What to remember is chosen, by its place among the suggestions; for how long is not.
    Scope(usize),
}

pub(crate) enum Reaction {
    Say(String),
    Decide(ApprovalDecision),
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

    /// The question.
    pub(crate) fn opening(&self) -> String {
        format!("\n{}{}", self.glance(), self.choices())
    }

    /// All there is to know before deciding, without the choices.
    pub(crate) fn details(&self) -> String {
        let mut lines = vec![self.heading()];
        lines.extend(self.touched().into_iter().map(|line| format!("  {line}")));
        lines.extend(self.preview(Extent::Whole));
        lines.extend(self.arguments());
        lines.push(format!("  why: {}", shown_in_line(&self.request.reason)));
        format!("{}\n{}", lines.join("\n"), self.offers())
    }

    /// As much of it as fits beside other things.
    pub(crate) fn glance(&self) -> String {
        let mut lines = vec![self.heading()];
        lines.extend(self.touched().into_iter().take(MOST_LINES).map(|line| format!("  {line}")));
        lines.extend(self.preview(Extent::Brief));
        lines.push(format!("  why: {}", shown_in_line(&self.request.reason)));
        format!("{}\n{}", lines.join("\n"), self.offers())
    }

    /// One line of answer, and what becomes of it.
    pub(crate) fn hear(&mut self, line: &str) -> Reaction {
        match self.state {
            State::Choice => self.hear_choice(line),
            State::Scope(place) => self.hear_scope(place, line),
            State::Words => {
                let words = Some(line.trim().to_owned()).filter(|words| !words.is_empty());
                Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", words))
            }
        }
    }

    fn hear_choice(&mut self, line: &str) -> Reaction {
        let (word, rest) = first_word(line);
        match (word.to_lowercase().as_str(), rest) {
            ("y" | "yes", "") => {
                Reaction::Decide(ApprovalDecision::approve(self.person, "terminal"))
            }
            ("n" | "no", "") => {
                Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", None))
            }
            ("w", "") => {
                self.state = State::Words;
                Reaction::Say("  what should be done instead?\n> ".to_owned())
            }
            ("w", words) => Reaction::Decide(ApprovalDecision::deny(
                self.person,
                "terminal",
                Some(words.to_owned()),
            )),
            ("v", "") => Reaction::Say(self.everything()),
            (number, rest) => match self.offered_at(number) {
                Some(place) => self.hear_number(place, rest),
                None => Reaction::Say(self.choices()),
            },
        }
    }

    /// `2` asks for how long; `2 p` and `2 p 1d` say so at once.
    fn hear_number(&mut self, place: usize, rest: &str) -> Reaction {
        match (self.scopes, rest) {
            // With one scope it has been said with the offer, so that only a time can follow.
            ([only], time) => match self.lapse(time) {
                Some(expires_ms) => self.remember(place, *only, expires_ms),
                None => Reaction::Say(self.choices()),
            },
            (_, "") => {
                self.state = State::Scope(place);
                Reaction::Say(self.scope_question(place))
            }
            (_, rest) => self.hear_scope(place, rest),
        }
    }

    fn hear_scope(&mut self, place: usize, line: &str) -> Reaction {
        let (word, time) = first_word(line);
        let word = word.to_lowercase();
        let scope = self.scopes.iter().find(|scope| scope_key(**scope) == word);
        match (scope, self.lapse(time)) {
            (Some(scope), Some(expires_ms)) => self.remember(place, *scope, expires_ms),
            _ if matches!(word.as_str(), "n" | "no") && time.is_empty() => {
                Reaction::Decide(ApprovalDecision::deny(self.person, "terminal", None))
            }
            _ if word == "b" => {
                self.state = State::Choice;
                Reaction::Say(format!("{}{}", self.offers(), self.choices()))
            }
            _ => {
                self.state = State::Scope(place);
                Reaction::Say(self.scope_question(place))
            }
        }
    }

    fn remember(&self, place: usize, scope: Scope, expires_ms: Option<u64>) -> Reaction {
        let suggestion = self.request.suggestions.get(place);
        let rules = suggestion.map(|it| it.rules.clone()).unwrap_or_default();
        let remember = Some(Remember { rules, scope, expires_ms });
        Reaction::Decide(ApprovalDecision {
            remember,
            ..ApprovalDecision::approve(self.person, "terminal")
        })
    }

    fn lapse(&self, time: &str) -> Option<Option<u64>> {
        super::lapse(time, &(self.now)())
    }

    /// What may be remembered, with its number; nothing where nothing lasts.
    fn on_offer(&self) -> &[Suggestion] {
        if self.scopes.is_empty() { &[] } else { &self.request.suggestions }
    }

    fn offered_at(&self, number: &str) -> Option<usize> {
        let place = number.parse::<usize>().ok()?.checked_sub(1)?;
        (place < self.on_offer().len()).then_some(place)
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

    fn scope_question(&self, place: usize) -> String {
        let key = |scope: &Scope| {
            let key = self.toned(Tone::Strong, &format!("[{}]", scope_key(*scope)));
            format!("{key} {}", scope_meaning(*scope))
        };
        let mut keys: Vec<String> = self.scopes.iter().map(key).collect();
        keys.push(format!("{} back", self.toned(Tone::Strong, "[b]")));
        let first = self.scopes.first().map_or("", |scope| scope_key(*scope));
        let rules = self.request.suggestions.get(place).map(rules_of).unwrap_or_default();
        format!(
            "  for how long is {rules} allowed?\n  {}\n  with a time it lapses: {first} 1h, {first} 1d, {first} 30d\n> ",
            keys.join("   ")
        )
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
        match self.on_offer().len() {
            0 => {}
            1 => choices.push(key("[1]", "yes, from now on")),
            number => choices.push(key(&format!("[1-{number}]"), "yes, from now on")),
        }
        choices.extend([key("[n]", "no"), key("[w]", "no, with words"), key("[v]", "view all")]);
        let seconds = self.request.expires_ms.saturating_sub(self.request.created_ms) / 1000;
        let time =
            if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        format!("  {}   ({time})\n> ", choices.join("   "))
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

fn scope_key(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "s",
        Scope::Project => "p",
        Scope::User => "u",
    }
}

fn scope_meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "until this session ends",
        Scope::Project => "in this project",
        Scope::User => "everywhere",
    }
}

fn first_word(line: &str) -> (&str, &str) {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    (word, rest.trim())
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
            reason: "mode `safe` asks before: write src/a.rs".into(),
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

    const SCOPES: &[Scope] = &[Scope::Session, Scope::Project, Scope::User];

    fn decided(reaction: Reaction) -> Option<ApprovalDecision> {
        match reaction {
            Reaction::Decide(verdict) => Some(verdict),
            Reaction::Say(_) => None,
        }
    }

    fn kept(reaction: Reaction) -> Option<Remember> {
        decided(reaction).and_then(|verdict| verdict.remember)
    }

    fn noon() -> Zoned {
        let noon: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
        noon.to_zoned(jiff::tz::TimeZone::UTC)
    }

    #[test]
    fn what_may_be_remembered_stands_before_the_choices() {
        assert!(!opening(&sample(), &[]).contains("[1"), "nothing lasts here");
        insta::assert_snapshot!(opening(&sample(), SCOPES).trim(), @r#"
        haft asks: Write file (write)
          write src/a.rs
          | {
          |   "path": "src/a.rs"
          | }
          why: mode `safe` asks before: write src/a.rs
          yes, and do not ask again for
            [1] write(src/a.rs)
            [2] write(src/**)    would have spared 3 of 12 questions so far
          [y] yes, once   [1-2] yes, from now on   [n] no   [w] no, with words   [v] view all   (10 min)
        >
        "#);
        let offered = opening(&sample(), &[Scope::Project]);
        assert!(
            offered.contains("\n  yes, in this project, to\n    [1] write(src/a.rs)\n"),
            "{offered}"
        );
    }

    #[test]
    fn a_number_asks_for_how_long_and_a_letter_says_it() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        let Reaction::Say(asked) = talk.hear("2") else { panic!("a number decides nothing yet") };
        insta::assert_snapshot!(asked.trim(), @"
        for how long is write(src/**) allowed?
          [s] until this session ends   [p] in this project   [u] everywhere   [b] back
          with a time it lapses: s 1h, s 1d, s 30d
        >
        ");
        for unclear in ["", "x", "p soon", "p -1h", "y", "2", "p 0d"] {
            let Reaction::Say(again) = talk.hear(unclear) else { panic!("{unclear} decides") };
            assert_eq!(again, asked, "{unclear}");
        }
        let rules = vec!["write(src/**)".to_owned()];
        let project = Remember { rules, scope: Scope::Project, expires_ms: None };
        assert_eq!(kept(talk.hear("p")), Some(project));
    }

    #[test]
    fn all_may_be_said_in_one_line() {
        let request = sample();
        let check = |line: &str, expected: Option<(&str, Scope, Option<u64>)>| {
            let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
            talk.now = noon;
            let remember = kept(talk.hear(line));
            let found = remember.as_ref().map(|it| (it.rules[0].as_str(), it.scope, it.expires_ms));
            assert_eq!(found, expected, "{line}");
        };
        let noon = 1_772_366_400_000;
        check("1 s", Some(("write(src/a.rs)", Scope::Session, None)));
        check("2 P never", Some(("write(src/**)", Scope::Project, None)));
        check("2 u 1h", Some(("write(src/**)", Scope::User, Some(noon + 3_600_000))));
        check("1 p 30d", Some(("write(src/a.rs)", Scope::Project, Some(noon + 30 * 86_400_000))));
        for nothing in ["0", "3", "1 1h", "1 p 1h please", "-1", "1s", "y 1", "3 p"] {
            check(nothing, None);
        }
    }

    #[test]
    fn one_can_go_back_or_say_no_after_all() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        talk.hear("1");
        let Reaction::Say(again) = talk.hear("b") else { panic!("going back decides nothing") };
        assert!(again.contains("[2] write(src/**)") && again.contains("[y] yes, once"), "{again}");
        assert_eq!(decided(talk.hear("y")), Some(ApprovalDecision::approve("ada", "terminal")));
        talk.hear("1");
        assert_eq!(decided(talk.hear("n")), Some(ApprovalDecision::deny("ada", "terminal", None)));
    }

    #[test]
    fn where_there_is_one_scope_a_number_is_enough() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[Scope::User], "ada", Colours::Unwanted);
        talk.now = noon;
        let user = |reaction| kept(reaction).map(|it| (it.scope, it.expires_ms.is_some()));
        assert_eq!(user(talk.hear("1")), Some((Scope::User, false)));
        assert_eq!(user(talk.hear("2 1d")), Some((Scope::User, true)));
        assert_eq!(user(talk.hear("2 p")), None);
    }

    #[test]
    fn a_set_of_rules_is_kept_together_and_shown_whole() {
        let mut request = sample();
        let long = format!("write({}/**)", "x".repeat(300));
        request.suggestions = vec![suggestion(&["bash(make)", &long], None)];
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        assert!(talk.opening().contains(&format!("[1] bash(make)  and  {long}\n")));
        let rules = kept(talk.hear("1 p")).map(|remember| remember.rules);
        assert_eq!(rules, Some(vec!["bash(make)".to_owned(), long]));
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
        request.suggestions = vec![suggestion(&[forged], None)];
        let text = opening(&request, SCOPES);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        let whys = text.lines().filter(|line| line.starts_with("  why:")).count();
        let choices = text.lines().filter(|line| line.starts_with("  [y]")).count();
        assert_eq!((whys, choices), (1, 1), "{text}");
    }

    #[test]
    fn answers_are_understood_or_asked_again() {
        let request = sample();
        let mut talk = Conversation::new(&request, SCOPES, "ada", Colours::Unwanted);
        for unclear in ["", "maybe", "yes please", "Y E S", "y n", "s", "p"] {
            assert!(decided(talk.hear(unclear)).is_none(), "{unclear}");
        }
        assert_eq!(decided(talk.hear(" Yes ")), Some(ApprovalDecision::approve("ada", "terminal")));
        assert_eq!(decided(talk.hear("n")), Some(ApprovalDecision::deny("ada", "terminal", None)));
        let words = decided(talk.hear("w use b.rs")).and_then(|verdict| verdict.note);
        assert_eq!(words.as_deref(), Some("use b.rs"));
        assert!(decided(talk.hear("w")).is_none());
        let words = decided(talk.hear("yes, but later")).and_then(|verdict| verdict.note);
        assert_eq!(words.as_deref(), Some("yes, but later"), "words are words, whatever they say");
    }

    #[test]
    fn where_nothing_lasts_a_number_is_no_answer() {
        let request = sample();
        let mut talk = Conversation::new(&request, &[], "ada", Colours::Unwanted);
        assert!(matches!(talk.hear("1"), Reaction::Say(_)));
        assert!(matches!(talk.hear("1 p"), Reaction::Say(_)));
    }
}
