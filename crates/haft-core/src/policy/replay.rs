//! Replays recorded calls against other rules. Pure: nothing is run or asked.

use super::{Action, Policy, PolicyQuery, Reason, Rule, Source};
use crate::{Access, LedgerEntry, PromptsAvoided};

impl Policy {
    /// The decision about a recorded call under this policy and these saved rules. `None` for a
    /// call that rules did not decide: it did not reach the policy stage, or its tool was outside a
    /// profile, which the record does not name.
    pub fn replay(&self, entry: &LedgerEntry, saved: &[Rule]) -> Option<Action> {
        let decision = entry.decision.as_ref()?;
        if matches!(decision.reason, Reason::Profile { .. }) {
            return None;
        }
        let query = PolicyQuery {
            tool: &entry.tool,
            effect: entry.effect,
            accesses: &entry.accesses,
            agents: &entry.agents,
            profile: None,
            saved,
        };
        Some(self.decide(&query).action)
    }

    /// Counts for each set of rules the prompts it would have avoided, within the time limit.
    pub(crate) fn prompts_avoided(
        &self,
        sets: &[Vec<String>],
        newest: &[LedgerEntry],
        is_in_time: impl Fn() -> bool,
    ) -> Vec<Option<PromptsAvoided>> {
        let source = Source::named("saved");
        let rules = |set: &Vec<String>| -> Vec<Rule> {
            set.iter()
                .filter_map(|it| Rule::parse(Action::Allow, it, source.clone()).ok())
                .collect()
        };
        let sets: Vec<Vec<Rule>> = sets.iter().map(rules).collect();
        let mut avoided = vec![0; sets.len()];
        let mut asked = 0;
        for entry in newest.iter().filter(|entry| needed_approval(entry)) {
            if !is_in_time() {
                break;
            }
            asked += 1;
            for (set, avoided) in sets.iter().zip(&mut avoided) {
                *avoided += usize::from(self.would_avoid_prompt(set, entry));
            }
        }
        let past = |avoided| (asked > 0).then_some(PromptsAvoided { spared: avoided, asked });
        avoided.into_iter().map(past).collect()
    }

    /// Returns true if a rule matches the call or one of its accesses.
    pub fn rule_applies(&self, rule: &Rule, tool: &str, accesses: &[Access]) -> bool {
        let mut accesses = accesses.iter();
        rule.names_tool(tool) || accesses.any(|access| rule.touches(tool, access, &self.roots))
    }

    fn would_avoid_prompt(&self, rules: &[Rule], entry: &LedgerEntry) -> bool {
        // Most rules match no part of most calls, and this check is much faster than a decision.
        let speaks = |rule: &Rule| self.rule_applies(rule, &entry.tool, &entry.accesses);
        rules.iter().any(speaks) && self.replay(entry, rules) == Some(Action::Allow)
    }
}

fn needed_approval(entry: &LedgerEntry) -> bool {
    entry.decision.as_ref().is_some_and(|decision| decision.action == Action::Ask)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Decision, Effect, Mode,
        policy::{Layer, LayerKind},
    };

    fn entry(tool: &str, accesses: &[Access], action: Action) -> LedgerEntry {
        let reason = Reason::Mode { mode: Mode::Contained, access: None };
        let decision = Decision { action, reason, change: String::new(), agent: None };
        let mut entry: LedgerEntry = serde_json::from_value(json!({
            "call_id": "c", "session": "s", "agents": [], "parent": null, "tool": tool, "effect": "read", "input": {}, "repairs": [],
            "accesses": [], "decision": null, "verdict": null, "error": null, "output_sha256": "", "began_ms": 0, "ms": 0,
        }))
        .expect("an entry");
        entry.accesses = accesses.to_vec();
        entry.decision = Some(decision);
        entry
    }

    fn run(text: &str) -> Access {
        Access::Run(text.to_owned())
    }

    fn history() -> Vec<LedgerEntry> {
        vec![
            entry("bash", &[run("git push origin")], Action::Ask),
            entry("bash", &[run("git push origin"), run("make")], Action::Ask),
            entry("bash", &[run("make")], Action::Ask),
            entry("bash", &[run("git push origin")], Action::Allow),
            entry("web_fetch", &[Access::Fetch("docs.rs".to_owned())], Action::Ask),
        ]
    }

    fn prompts_avoided(
        policy: &Policy,
        sets: &[&[&str]],
        most: usize,
    ) -> Vec<Option<PromptsAvoided>> {
        let sets: Vec<Vec<String>> =
            sets.iter().map(|set| set.iter().map(ToString::to_string).collect()).collect();
        let looked = std::cell::Cell::new(0);
        policy.prompts_avoided(&sets, &history(), || {
            looked.set(looked.get() + 1);
            looked.get() <= most
        })
    }

    #[test]
    fn a_set_of_rules_avoids_the_prompts_it_allows_as_a_whole() {
        let policy = Policy::default();
        let past = |avoided| Some(PromptsAvoided { spared: avoided, asked: 4 });
        let sets: [&[&str]; 4] = [
            &["bash(git push *)"],
            &["bash(git push *)", "bash(make)"],
            &["hello"],
            &["web_fetch"],
        ];
        assert_eq!(prompts_avoided(&policy, &sets, 9), [past(1), past(3), past(0), past(1)]);
    }

    #[test]
    fn no_more_is_looked_at_than_there_is_time_for() {
        let policy = Policy::default();
        assert_eq!(
            prompts_avoided(&policy, &[&["bash"]], 2),
            [Some(PromptsAvoided { spared: 2, asked: 2 })]
        );
        assert_eq!(prompts_avoided(&policy, &[&["bash"]], 0), [None], "nothing is known then");
    }

    #[test]
    fn a_saved_rule_avoids_no_prompt_of_a_written_rule() {
        let mut user = Layer::new(LayerKind::User, "f");
        let ask = Rule::parse(Action::Ask, "bash(git *)", Source::named("f")).expect("a rule");
        user.rules.push(ask);
        let policy = Policy::new([user]);
        assert_eq!(
            prompts_avoided(&policy, &[&["bash"]], 9),
            [Some(PromptsAvoided { spared: 1, asked: 4 })]
        );
    }

    #[test]
    fn a_call_that_rules_did_not_decide_is_left_out() {
        let policy = Policy::default();
        let mut outside = entry("bash", &[run("make")], Action::Deny);
        assert_eq!(policy.replay(&outside, &[]), Some(Action::Ask));
        let reason = Reason::Profile { name: "x".to_owned(), source: None };
        outside.decision.as_mut().expect("it has one").reason = reason;
        assert_eq!(policy.replay(&outside, &[]), None);
        outside.decision = None;
        assert_eq!(policy.replay(&outside, &[]), None);
    }

    #[test]
    fn the_effect_counts_that_is_recorded() {
        let mut write = entry("delete", &[Access::Write("a".into())], Action::Ask);
        let policy = Policy::default();
        assert_eq!(policy.replay(&write, &[]), Some(Action::Allow));
        write.effect = Effect::Destructive;
        assert_eq!(policy.replay(&write, &[]), Some(Action::Ask));
    }
}
