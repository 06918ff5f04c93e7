//! Modes: how much runs without approval where no rule applies.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{SandboxCheck, rule::Action};
use crate::{
    Access, Effect, Power,
    access::{CommandRisk, is_inside},
};

/// How much runs without approval. Ordered from strict to permissive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every call needs approval.
    None,
    /// Read-only calls run.
    Safe,
    /// Changes inside the workspace and commands in a working sandbox run too.
    Contained,
    /// Everything runs that no rule forbids. Must be chosen explicitly.
    All,
}

impl Mode {
    /// Every mode, from strict to permissive.
    pub const ALL: &[Self] = &[Self::None, Self::Safe, Self::Contained, Self::All];

    /// The name in configuration files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Safe => "safe",
            Self::Contained => "contained",
            Self::All => "all",
        }
    }

    /// A short description of what runs without approval.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::None => "nothing: every call needs approval",
            Self::Safe => "read-only calls",
            Self::Contained => "read-only calls, changes inside the workspace, sandboxed commands",
            Self::All => "everything that no rule forbids",
        }
    }

    /// The action for one access of a tool or a command.
    pub(crate) fn action_for(
        self,
        access: &Access,
        effect: Effect,
        sandbox: &SandboxCheck,
        by: Actor,
    ) -> Action {
        // A command that receives a secret may send it anywhere, so no mode allows it; only a rule
        // that names the secret does. A secret that is bound to hosts reaches no other host.
        let is_free =
            matches!(access, Access::Secret { .. } | Access::SendSecret { is_bound: false, .. });
        if is_free || is_closed(access) {
            return Action::Ask;
        }
        // Only mode `contained` depends on the sandbox; the others need not check it.
        let scope = scope_of(access, by, || self == Self::Contained && sandbox.works());
        // Without a sandbox nothing limits a command that was parsed wrongly, however harmless it
        // seems.
        let is_command = matches!(access, Access::Command(_));
        let is_unprotected =
            is_command && matches!(self, Self::Safe | Self::Contained) && sandbox.is_missing();
        let is_sandboxed = self == Self::Safe && reads_repository(access) && sandbox.works();
        let scope = match (is_unprotected, is_sandboxed) {
            (true, _) => AccessScope::Beyond,
            (false, true) => AccessScope::Read,
            (false, false) => scope,
        };
        // No mode but `all` allows a destructive call, even inside the workspace.
        let scope = if effect == Effect::Destructive { AccessScope::Beyond } else { scope };
        self.allows(scope)
    }

    /// The action for a call without accesses.
    pub(crate) fn action_without_access(self, effect: Effect) -> Action {
        let scope = match effect {
            Effect::Read => AccessScope::Read,
            Effect::Write => AccessScope::Change,
            Effect::Execute | Effect::Destructive => AccessScope::Beyond,
        };
        self.allows(scope)
    }

    fn allows(self, scope: AccessScope) -> Action {
        let least = match scope {
            AccessScope::Read => Self::Safe,
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

/// Returns true if a command may open files that rules or secret paths close.
fn is_closed(access: &Access) -> bool {
    matches!(access, Access::Command(command) if matches!(command.risk, CommandRisk::Closed(_)))
}

/// Returns true if a command may run programs that a repository names.
fn reads_repository(access: &Access) -> bool {
    matches!(access, Access::Command(command) if command.risk == CommandRisk::Repository)
}

/// How far an access reaches, as the modes see it.
enum AccessScope {
    /// Reads haft's own records or files in the workspace.
    Read,
    /// Changes something that the journal or the sandbox contains.
    Change,
    /// Leaves the workspace or the machine, or cannot be undone.
    Beyond,
}

/// The actor that opens the named accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A built-in tool.
    Tool,
    /// A command. If it runs in a sandbox, the sandbox limits it.
    Command,
}

fn scope_of(access: &Access, by: Actor, sandbox_works: impl Fn() -> bool) -> AccessScope {
    match access {
        Access::Many { path, is_write: false, .. } if is_inside(path) => AccessScope::Read,
        Access::Many { path, is_write: true, .. } if is_inside(path) => AccessScope::Change,
        Access::Many { .. } if by == Actor::Command && sandbox_works() => AccessScope::Change,
        Access::Many { .. } => AccessScope::Beyond,
        Access::SendSecret { is_bound: true, .. } => AccessScope::Read,
        Access::Read(path) if is_inside(path) => AccessScope::Read,
        Access::Write(path) if is_inside(path) => AccessScope::Change,
        Access::Command(command) if command.risk == CommandRisk::ReadOnly => AccessScope::Read,
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
        // The commands of the call are judged by their risk, and the files they name by path.
        Access::Any(Power::WriteFiles) if by == Actor::Command => AccessScope::Read,
        Access::Any(power) => match power {
            // Calls made through `Tools` pass the gate themselves; the file powers are limited to
            // the workspace.
            Power::Free | Power::Tools | Power::ReadFiles | Power::ReadStore | Power::Lsp => {
                AccessScope::Read
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

    /// The strictest mode in which an access runs without approval.
    fn least(access: Access) -> Mode {
        let runs = |mode: &&Mode| {
            mode.action_for(&access, Effect::Read, &SandboxCheck::default(), Actor::Tool)
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
            Mode::Contained.action_for(&run, Effect::Execute, &works, Actor::Tool),
            Action::Allow
        );
        // Where it makes no difference the sandbox is not even checked.
        let untried = SandboxCheck::new(|| panic!("tried"));
        assert_eq!(
            Mode::Safe.action_for(&run, Effect::Execute, &untried, Actor::Tool),
            Action::Ask
        );
        assert_eq!(
            Mode::All.action_for(&run, Effect::Execute, &untried, Actor::Tool),
            Action::Allow
        );
    }

    #[test]
    fn every_mode_asks_before_a_secret_is_given_to_a_command() {
        let secret = Access::Secret { name: "KEY".to_owned(), command: "ls".to_owned() };
        let works = SandboxCheck::new(|| true);
        for mode in Mode::ALL {
            for by in [Actor::Tool, Actor::Command] {
                assert_eq!(mode.action_for(&secret, Effect::Execute, &works, by), Action::Ask);
                let sent = |is_bound| {
                    let (name, host) = ("KEY".to_owned(), "a.test".to_owned());
                    let access = Access::SendSecret { name, host, is_bound };
                    mode.action_for(&access, Effect::Write, &works, by)
                };
                assert_eq!(sent(false), Action::Ask, "{mode}");
                let bound = if *mode == Mode::None { Action::Ask } else { Action::Allow };
                assert_eq!(sent(true), bound, "{mode}");
            }
        }
    }

    #[test]
    fn destructive_calls_need_approval_below_mode_all() {
        let write = Access::Write("src".into());
        let works = SandboxCheck::new(|| true);
        assert_eq!(
            Mode::Contained.action_for(&write, Effect::Destructive, &works, Actor::Tool),
            Action::Ask
        );
        assert_eq!(
            Mode::All.action_for(&write, Effect::Destructive, &works, Actor::Tool),
            Action::Allow
        );
    }

    #[test]
    fn mode_none_asks_for_every_call() {
        assert_eq!(Mode::None.action_without_access(Effect::Read), Action::Ask);
        assert_eq!(Mode::Safe.action_without_access(Effect::Read), Action::Allow);
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
                mode.action_for(access, Effect::Execute, sandbox, Actor::Command) == Action::Allow
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
        // A user who switches the sandbox off relies on how commands are parsed.
        let off = SandboxCheck::switched_off();
        assert_eq!(least(&command(CommandRisk::ReadOnly), &off), Mode::Safe);
        assert_eq!(least(&command(CommandRisk::Other), &off), Mode::All);
        // A program that a repository names is harmless only in a sandbox.
        let repository = command(CommandRisk::Repository);
        assert_eq!(least(&repository, &works), Mode::Safe);
        assert_eq!(least(&repository, &off), Mode::All);
        // A command that may open closed files needs approval in every mode.
        let closed = command(CommandRisk::Closed("why".to_owned()));
        for mode in Mode::ALL {
            assert_eq!(
                mode.action_for(&closed, Effect::Execute, &works, Actor::Command),
                Action::Ask
            );
        }
    }
}
