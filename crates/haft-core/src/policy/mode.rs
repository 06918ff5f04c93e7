//! The mode decides where no rule speaks: one word for how much runs unasked.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{SandboxCheck, rule::Action};
use crate::{
    Access, Effect, Power,
    access::{CommandRisk, is_inside},
};

/// How much runs without asking. Ordered from strict to free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everything is asked for.
    None,
    /// Looking runs.
    Safe,
    /// Changes inside the workspace, and commands in a working sandbox, run too.
    Contained,
    /// Everything runs that no rule forbids. Must be asked for by name.
    All,
}

impl Mode {
    /// Every mode, from strict to free.
    pub const ALL: &[Self] = &[Self::None, Self::Safe, Self::Contained, Self::All];

    /// The word in configuration files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Safe => "safe",
            Self::Contained => "contained",
            Self::All => "all",
        }
    }

    /// What runs unasked, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::None => "nothing: everything is asked for",
            Self::Safe => "looking",
            Self::Contained => "looking, changes inside the workspace, commands in a sandbox",
            Self::All => "everything that no rule forbids",
        }
    }

    /// What this mode says to one access of a tool or a command.
    pub(crate) fn verdict(
        self,
        access: &Access,
        effect: Effect,
        sandbox: &SandboxCheck,
        by: Actor,
    ) -> Action {
        // Who is given a secret may send it anywhere, so that no mode says yes to it; a rule that names it does.
        // Where a person has said which hosts it is for, it reaches no other.
        let is_free =
            matches!(access, Access::Secret { .. } | Access::SendSecret { is_bound: false, .. });
        if is_free || is_closed(access) {
            return Action::Ask;
        }
        // The others say the same with and without one, so that it need not be tried.
        let reach = reach_of(access, by, || self == Self::Contained && sandbox.works());
        // However harmless a command looks, nothing would hold what was read wrongly.
        let is_command = matches!(access, Access::Command(_));
        let is_bare =
            is_command && matches!(self, Self::Safe | Self::Contained) && sandbox.is_missing();
        let is_held = self == Self::Safe && reads_repository(access) && sandbox.works();
        let reach = match (is_bare, is_held) {
            (true, _) => AccessScope::Beyond,
            (false, true) => AccessScope::Look,
            (false, false) => reach,
        };
        // What cannot be brought back is never the mode's to wave through, however near it is.
        let reach = if effect == Effect::Destructive { AccessScope::Beyond } else { reach };
        self.allows(reach)
    }

    /// What this mode says to a call that touches nothing outside itself.
    pub(crate) fn verdict_on_nothing(self, effect: Effect) -> Action {
        let reach = match effect {
            Effect::Read => AccessScope::Look,
            Effect::Write => AccessScope::Change,
            Effect::Execute | Effect::Destructive => AccessScope::Beyond,
        };
        self.allows(reach)
    }

    fn allows(self, reach: AccessScope) -> Action {
        let least = match reach {
            AccessScope::Look => Self::Safe,
            AccessScope::Change => Self::Contained,
            AccessScope::Beyond => Self::All,
        };
        if self >= least { Action::Allow } else { Action::Ask }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().copied().find(|mode| mode.name() == text);
        known.ok_or_else(|| format!("`{text}` is not a mode; one of none, safe, contained, all"))
    }
}

/// Whether a command may open files that rules or secrets close.
fn is_closed(access: &Access) -> bool {
    matches!(access, Access::Command(command) if matches!(command.risk, CommandRisk::Closed(_)))
}

/// Whether a command may run programs that a repository names.
fn reads_repository(access: &Access) -> bool {
    matches!(access, Access::Command(command) if command.risk == CommandRisk::Repository)
}

/// How far an access reaches, as the modes see it.
enum AccessScope {
    /// Reads what haft keeps or what lies in the workspace.
    Look,
    /// Changes what the journal or the sandbox can hold.
    Change,
    /// Leaves the workspace, the machine, or what can be undone.
    Beyond,
}

/// Who opens what an access names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A tool of ours.
    Tool,
    /// A command: where it runs in a sandbox, that holds it.
    Command,
}

fn reach_of(access: &Access, by: Actor, sandbox_works: impl Fn() -> bool) -> AccessScope {
    match access {
        Access::Many { path, is_write: false, .. } if is_inside(path) => AccessScope::Look,
        Access::Many { path, is_write: true, .. } if is_inside(path) => AccessScope::Change,
        Access::Many { .. } if by == Actor::Command && sandbox_works() => AccessScope::Change,
        Access::Many { .. } => AccessScope::Beyond,
        Access::SendSecret { is_bound: true, .. } => AccessScope::Look,
        Access::Read(path) if is_inside(path) => AccessScope::Look,
        Access::Write(path) if is_inside(path) => AccessScope::Change,
        Access::Command(command) if command.risk == CommandRisk::ReadOnly => AccessScope::Look,
        Access::Command(command)
            if matches!(command.risk, CommandRisk::NeedsApproval(_) | CommandRisk::Unclear(_)) =>
        {
            AccessScope::Beyond
        }
        Access::Read(_) | Access::Write(_) if by == Actor::Command && sandbox_works() => {
            AccessScope::Change
        }
        Access::Run(_) | Access::Command(_) | Access::Any(Power::Shell) if sandbox_works() => {
            AccessScope::Change
        }
        Access::Read(_) | Access::Write(_) | Access::Fetch(_) => AccessScope::Beyond,
        Access::Run(_) | Access::Command(_) => AccessScope::Beyond,
        Access::Secret { .. } | Access::SendSecret { .. } => AccessScope::Beyond,
        // What the commands may do is judged by them, and what they name by its path.
        Access::Any(Power::WriteFiles) if by == Actor::Command => AccessScope::Look,
        Access::Any(power) => match power {
            // The calls that `Tools` leads to pass the gate themselves; the file powers are held to the workspace.
            Power::Free | Power::Tools | Power::ReadFiles | Power::ReadStore | Power::Lsp => {
                AccessScope::Look
            }
            Power::WriteFiles | Power::WriteStore | Power::Model => AccessScope::Change,
            Power::Shell | Power::Net | Power::Mcp | Power::Host => AccessScope::Beyond,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParsedCommand;

    /// The least mode in which an access runs unasked.
    fn least(access: Access) -> Mode {
        let runs = |mode: &&Mode| {
            mode.verdict(&access, Effect::Read, &SandboxCheck::default(), Actor::Tool)
                == Action::Allow
        };
        *Mode::ALL.iter().find(runs).expect("`all` allows everything")
    }

    #[test]
    fn each_access_has_its_least_mode() {
        assert_eq!(least(Access::Read("src".into())), Mode::Safe);
        assert_eq!(least(Access::Read("/etc/passwd".into())), Mode::All);
        assert_eq!(least(Access::Read("../x".into())), Mode::All);
        assert_eq!(least(Access::Write("src/a".into())), Mode::Contained);
        assert_eq!(least(Access::Write("/tmp/a".into())), Mode::All);
        assert_eq!(least(Access::Run("ls".into())), Mode::All);
        assert_eq!(least(Access::Fetch("docs.rs".into())), Mode::All);
        assert_eq!(least(Access::Any(Power::Tools)), Mode::Safe);
        assert_eq!(least(Access::Any(Power::Host)), Mode::All);
    }

    #[test]
    fn a_working_sandbox_contains_commands() {
        let run = Access::Run("ls".into());
        let works = SandboxCheck::new(|| true);
        assert_eq!(
            Mode::Contained.verdict(&run, Effect::Execute, &works, Actor::Tool),
            Action::Allow
        );
        // Where it makes no difference it is not even tried.
        let untried = SandboxCheck::new(|| panic!("tried"));
        assert_eq!(Mode::Safe.verdict(&run, Effect::Execute, &untried, Actor::Tool), Action::Ask);
        assert_eq!(Mode::All.verdict(&run, Effect::Execute, &untried, Actor::Tool), Action::Allow);
    }

    #[test]
    fn every_mode_asks_before_a_secret_is_given_to_a_command() {
        let secret = Access::Secret { name: "KEY".to_owned(), command: "ls".to_owned() };
        let works = SandboxCheck::new(|| true);
        for mode in Mode::ALL {
            for by in [Actor::Tool, Actor::Command] {
                assert_eq!(mode.verdict(&secret, Effect::Execute, &works, by), Action::Ask);
                let sent = |is_bound| {
                    let (name, host) = ("KEY".to_owned(), "a.test".to_owned());
                    let access = Access::SendSecret { name, host, is_bound };
                    mode.verdict(&access, Effect::Write, &works, by)
                };
                assert_eq!(sent(false), Action::Ask, "{mode}");
                let bound = if *mode == Mode::None { Action::Ask } else { Action::Allow };
                assert_eq!(sent(true), bound, "{mode}");
            }
        }
    }

    #[test]
    fn what_cannot_be_undone_is_asked_for_below_all() {
        let write = Access::Write("src".into());
        let works = SandboxCheck::new(|| true);
        assert_eq!(
            Mode::Contained.verdict(&write, Effect::Destructive, &works, Actor::Tool),
            Action::Ask
        );
        assert_eq!(
            Mode::All.verdict(&write, Effect::Destructive, &works, Actor::Tool),
            Action::Allow
        );
    }

    #[test]
    fn none_asks_for_everything() {
        assert_eq!(Mode::None.verdict_on_nothing(Effect::Read), Action::Ask);
        assert_eq!(Mode::Safe.verdict_on_nothing(Effect::Read), Action::Allow);
    }

    #[test]
    fn a_command_that_was_read_is_judged_by_how_far_it_reaches() {
        let command = |risk| {
            let text = "x".to_owned();
            Access::Command(Box::new(ParsedCommand {
                text,
                risk,
                rule_texts: Vec::new(),
                spellings: Vec::new(),
                known_prefixes: Vec::new(),
            }))
        };
        let (works, is_not) = (SandboxCheck::new(|| true), SandboxCheck::default());
        let least = |access: &Access, sandbox: &SandboxCheck| {
            let runs = |mode: &&Mode| {
                mode.verdict(access, Effect::Execute, sandbox, Actor::Command) == Action::Allow
            };
            *Mode::ALL.iter().find(runs).expect("`all` allows everything")
        };
        let dangerous = command(CommandRisk::NeedsApproval("why".to_owned()));
        for (access, in_sandbox, without) in [
            (command(CommandRisk::ReadOnly), Mode::Safe, Mode::All),
            (command(CommandRisk::Other), Mode::Contained, Mode::All),
            (dangerous, Mode::All, Mode::All),
            (command(CommandRisk::Unclear("why".to_owned())), Mode::All, Mode::All),
            (Access::Read("src".into()), Mode::Safe, Mode::Safe),
            (Access::Read("/etc/hosts".into()), Mode::Contained, Mode::All),
            (Access::Write("/etc/hosts".into()), Mode::Contained, Mode::All),
            (Access::Any(Power::WriteFiles), Mode::Safe, Mode::Safe),
        ] {
            assert_eq!(least(&access, &works), in_sandbox, "{access}");
            assert_eq!(least(&access, &is_not), without, "{access}");
        }
        // Whoever switches it off relies on how commands are read.
        let off = SandboxCheck::switched_off();
        assert_eq!(least(&command(CommandRisk::ReadOnly), &off), Mode::Safe);
        assert_eq!(least(&command(CommandRisk::Other), &off), Mode::All);
        // What a repository makes run is harmless in a sandbox only.
        let repository = command(CommandRisk::Repository);
        assert_eq!(least(&repository, &works), Mode::Safe);
        assert_eq!(least(&repository, &off), Mode::All);
        // What may open closed files is asked about in every mode.
        let closed = command(CommandRisk::Closed("why".to_owned()));
        for mode in Mode::ALL {
            assert_eq!(mode.verdict(&closed, Effect::Execute, &works, Actor::Command), Action::Ask);
        }
    }
}
