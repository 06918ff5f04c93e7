//! The parts of a decision: what policy decides for each access of a call, and which saved rules
//! would make the approval unnecessary. Pure, like the decision itself.

use std::slice;

use serde::Serialize;

use super::{Action, Decision, Policy, PolicyQuery, Reason, Rule, Source, by, suggestions};
use crate::Access;

/// The policy decision for one access of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccessDecision {
    /// The access.
    pub access: Access,
    /// The decision and its reason.
    #[serde(flatten)]
    pub decision: Decision,
}

/// An approver does not read more rules than this.
const MAX_RULES: usize = 4;

impl Policy {
    /// Decides for each access of a call alone. The strictest decision is the one of the call.
    pub fn access_decisions(&self, query: &PolicyQuery<'_>) -> Vec<AccessDecision> {
        let by = by(query);
        let verdict = |access: &Access| {
            let one = PolicyQuery { accesses: slice::from_ref(access), ..*query };
            AccessDecision { access: access.clone(), decision: self.decide_by(&one, by) }
        };
        query.accesses.iter().map(verdict).collect()
    }

    /// Returns sets of allow rules that an approval may save, narrowest first. Each set alone would
    /// allow this call in the future. Empty if a written rule asks, because saved rules do not
    /// override it, and if a part of the call can only be approved once.
    pub fn offers(&self, query: &PolicyQuery<'_>) -> Vec<Vec<String>> {
        let decision = self.decide(query);
        if decision.action != Action::Ask || !matches!(decision.reason, Reason::Mode { .. }) {
            return Vec::new();
        }
        let mut sets = match query.accesses {
            [] => vec![vec![query.tool.to_owned()]],
            _ => sets(&self.rule_choices(query)),
        };
        sets.dedup();
        sets.retain(|rules| rules.len() <= MAX_RULES && self.is_allowed_with(query, rules));
        sets
    }

    fn rule_choices(&self, query: &PolicyQuery<'_>) -> Vec<Vec<String>> {
        let verdicts = self.access_decisions(query).into_iter();
        let asked = verdicts.filter(|verdict| verdict.decision.action == Action::Ask);
        asked.map(|verdict| suggestions(query.tool, &verdict.access)).collect()
    }

    /// Returns true if the call would need no approval with these rules saved.
    pub(crate) fn is_allowed_with(&self, query: &PolicyQuery<'_>, rules: &[String]) -> bool {
        let parsed =
            rules.iter().map(|text| Rule::parse(Action::Allow, text, Source::named("saved")));
        let Ok(mut saved) = parsed.collect::<Result<Vec<Rule>, _>>() else { return false };
        saved.extend_from_slice(query.saved);
        self.decide(&PolicyQuery { saved: &saved, ..*query }).action == Action::Allow
    }
}

/// Builds one set for each width: for every access its rule of this width, or its widest.
fn sets(choices: &[Vec<String>]) -> Vec<Vec<String>> {
    if choices.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let widest = choices.iter().map(Vec::len).max().unwrap_or_default();
    let set = |width: usize| {
        let mut rules: Vec<String> = Vec::new();
        for rule in choices.iter().filter_map(|all| all.get(width).or(all.last())) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        rules
    };
    (0..widest).map(set).collect()
}
