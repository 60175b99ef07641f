//! The policy for devices without measured costs: it relies on the declared capabilities.

use super::answer::Route;
use super::ask::{Ask, Choice};
use super::policy::Policy;
use crate::driver::{Capability, Class};
use crate::stats::Reason;

/// Sends a batch to the device with the highest break-even that the batch reaches. Splits a batch if its last requests are too few for that
/// device.
///
/// For example, a device has 16 lanes and a break-even of 6. Then a batch of 7 goes to the lanes, and a batch of 5 to plain software. A
/// batch of 35 is split: 32 go to the lanes, and the remaining 3 to plain software.
#[derive(Debug)]
pub struct BreakEven;

impl Policy for BreakEven {
    fn name(&self) -> &'static str {
        "break-even"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        let mut choices = 0;
        let mut best: Option<Choice<'_>> = None;
        for choice in ask.choices() {
            choices += 1;
            if best.as_ref().is_none_or(|best| rank(ask, &choice) > rank(ask, best)) {
                best = Some(choice);
            }
        }
        let best = best?;
        if choices == 1 {
            return Some(ask.all_to(&best, Reason::OnlyChoice));
        }
        let capability = best.capability;
        if ask.requests() == 1 || capability.lanes == 1 || capability.break_even > ask.requests() {
            return Some(ask.all_to(&best, Reason::TooFew));
        }
        let rest = ask.requests() % capability.lanes.max(1);
        let left_over = if rest < capability.break_even && rest < ask.requests() { rest } else { 0 };
        Some(Route { requests: ask.requests() - left_over, ..ask.all_to(&best, Reason::EnoughRequests) })
    }

    /// Returns the maximum lanes of the devices whose break-even is at most their number of lanes.
    fn batch_size(&self, ask: &Ask<'_>) -> usize {
        let capabilities = ask.choices().map(|choice| choice.capability);
        let worth_it =
            capabilities.filter(|capability| capability.lanes > 1 && capability.break_even <= capability.lanes);
        worth_it.map(|capability| capability.lanes).max().unwrap_or(1)
    }
}

/// Ranks a choice. Devices whose break-even is reached come first: the highest break-even, then the most lanes, then SIMD devices. SIMD
/// wins such a tie against plain software, because a reached break-even means that the device is faster. Among the others, the lowest
/// break-even comes first.
fn rank(ask: &Ask<'_>, choice: &Choice<'_>) -> (bool, isize, usize, bool) {
    let Capability { break_even, lanes, .. } = *choice.capability;
    let (pays, simd) = (break_even <= ask.requests(), choice.info.class == Class::Simd);
    let required = isize::try_from(break_even).unwrap_or(isize::MAX);
    (pays, if pays { required } else { -required }, lanes, simd)
}
