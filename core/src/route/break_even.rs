//! The default: believes what capabilities declare.

use super::{Ask, Policy, Reason, Route};

/// Sends requests to the device that asks for the most company that there is, and splits a batch where the last few
/// would be too few for it.
///
/// With a device of 16 lanes and a break-even of 6, 7 requests go to the lanes, 5 to plain software; of 35, 32 go to the
/// lanes, and the 3 that are left over to plain software.
#[derive(Debug)]
pub struct BreakEven;

impl Policy for BreakEven {
    fn name(&self) -> &'static str {
        "break-even"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let mut choices = 0;
        let mut best: Option<super::Choice<'_>> = None;
        for choice in ask.choices() {
            choices += 1;
            let asks_for = choice.capability.break_even;
            // Where company is short everywhere, the device that asks for the least.
            let better = best.as_ref().is_none_or(|best| {
                let (now, before) = (asks_for <= ask.requests, best.capability.break_even <= ask.requests);
                if now == before {
                    if now { asks_for > best.capability.break_even } else { asks_for < best.capability.break_even }
                } else {
                    now
                }
            });
            if better {
                best = Some(choice);
            }
        }
        let best = best?;
        if choices == 1 {
            return Some(ask.all_to(&best, Reason::OnlyChoice));
        }
        let capability = best.capability;
        if capability.break_even <= 1 || capability.break_even > ask.requests {
            return Some(ask.all_to(&best, Reason::TooFew));
        }
        let rest = ask.requests % capability.lanes;
        let left_over = if rest < capability.break_even && rest < ask.requests { rest } else { 0 };
        Some(Route { device: best.device, requests: ask.requests - left_over, reason: Reason::EnoughCompany })
    }
}
