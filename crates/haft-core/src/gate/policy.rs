//! Stage 5: policy decides. What it denies ends here; a power that the tool can do without is withheld instead.

use super::{CallState, Inner};
use crate::{
    Access, Power, ToolError,
    policy::{Action, Decision, PolicyQuery, Reason, Rule},
};

pub(super) async fn judge(gate: &Inner, flight: &mut CallState) -> Result<(), ToolError> {
    withhold_optional(gate, flight);
    let mut decision = decide(gate, flight, &flight.judged, &[]);
    // Saved rules only answer what the mode would ask: most calls need not look for them.
    if decision.action == Action::Ask && matches!(decision.reason, Reason::Mode { .. }) {
        let saved = saved_rules(gate, flight).await;
        decision = decide(gate, flight, &flight.judged, &saved);
    }
    let denied = (decision.action == Action::Deny).then(|| refusal(gate, flight, &decision));
    flight.decision = Some(decision);
    denied.map_or(Ok(()), Err)
}

/// Without them somebody is asked, which is no reason to refuse the call.
async fn saved_rules(gate: &Inner, flight: &mut CallState) -> Vec<Rule> {
    gate.saved_rules.active(&flight.context.session).await.unwrap_or_else(|error| {
        flight.repairs.push(format!("went without the saved rules: {error}"));
        Vec::new()
    })
}

/// What policy is asked about accesses of this call.
pub(super) fn question<'a>(
    flight: &'a CallState,
    accesses: &'a [Access],
    saved: &'a [Rule],
) -> PolicyQuery<'a> {
    let spec = flight.tool().spec();
    PolicyQuery {
        tool: &spec.name,
        effect: spec.effect,
        accesses,
        agents: &flight.context.agents,
        profile: flight.context.profile.as_deref(),
        saved,
    }
}

fn decide(gate: &Inner, flight: &CallState, accesses: &[Access], saved: &[Rule]) -> Decision {
    gate.policy.decide(&question(flight, accesses, saved))
}

/// `Option<Net>` in a signature means: works without. Then a rule against it costs the power, not the call.
fn withhold_optional(gate: &Inner, flight: &mut CallState) {
    let needs = &flight.tool().spec().needs;
    let optional: Vec<Power> = needs
        .iter()
        .filter(|need| need.optional && !needs.contains(&crate::Need::required(need.power)))
        .map(|need| need.power)
        .collect();
    for power in optional {
        // Only what the tool itself asks for can be kept from it; a command does what it does.
        let (uses, rest): (Vec<Access>, Vec<Access>) = flight
            .judged
            .iter()
            .cloned()
            .partition(|access| access.power() == power && flight.accesses.contains(access));
        let is_denied = !uses.is_empty()
            && decide(gate, flight, &uses, &[]).action == Action::Deny
            && decide(gate, flight, &rest, &[]).action != Action::Deny;
        if is_denied {
            flight.judged = rest;
            flight.accesses.retain(|access| access.power() != power);
            flight.withheld.push(power);
        }
    }
}

fn refusal(gate: &Inner, flight: &CallState, decision: &Decision) -> ToolError {
    let to_whom = match &decision.agent {
        Some(agent) => format!(" to agent `{agent}`"),
        None => String::new(),
    };
    let name = flight.name();
    let touched = match &decision.reason {
        Reason::Rule(rule) if !rule.names_tool(name) => {
            let is_touched = |access: &&Access| rule.touches(name, access, &gate.policy.roots);
            flight.judged.iter().find(is_touched)
        }
        _ => None,
    };
    let what = touched.map_or(String::new(), |access| format!("{access}: "));
    let message = format!("`{name}` is denied{to_whom}: {what}{}", decision.reason);
    ToolError::denied(message).hint(format!("to change that, {}", decision.change))
}
