//! Policies by their names: selector and direction, or an index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_abi_xfrm::{Action, Direction, Policy, PolicyRef};

use super::Refusal;
use super::association::{Use, seconds};
use super::view::{Registered, template};

/// Policies that there may be.
const MOST: usize = 65_536;
/// Bits of an index that say the direction.
const DIRECTION: u32 = 3;

/// All policies, in the order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    all: Vec<Arc<Registered>>,
    next: u32,
}

impl Policies {
    /// Adds a policy, or replaces the one of its selector; its place.
    ///
    /// # Errors
    /// EEXIST if there is one that is not to be replaced; EOPNOTSUPP for what there is not.
    pub(crate) fn add(&mut self, mut policy: Policy, update: bool) -> Result<usize, Refusal> {
        check(&policy)?;
        let place = self.all.iter().position(|known| is(&known.policy, &policy.selector, policy.direction));
        match place {
            Some(_) if !update => return Err(Refusal::new(libc::EEXIST, "there is a policy of this selector")),
            None if self.all.len() >= MOST => {
                return Err(Refusal::new(libc::ENOBUFS, "there are as many policies as there may be"));
            }
            _ => {}
        }
        self.next += 1;
        policy.index = match place {
            Some(place) => self.all[place].policy.index,
            None => self.next << DIRECTION | policy.direction as u32,
        };
        let new = Registered { policy, added: seconds(), used: Use::default(), asked: AtomicU64::new(0) };
        let place = place.unwrap_or(self.all.len());
        self.all.splice(place..self.all.len().min(place + 1), [new.into()]);
        Ok(place)
    }

    /// Where a policy is that a message names.
    fn place(&self, named: &PolicyRef) -> Option<usize> {
        self.all.iter().position(|known| {
            if named.index != 0 {
                known.policy.index == named.index && known.policy.direction == named.direction
            } else {
                is(&known.policy, &named.selector, named.direction)
            }
        })
    }

    pub(crate) fn get(&self, named: &PolicyRef) -> Option<&Arc<Registered>> {
        self.place(named).map(|place| &self.all[place])
    }

    pub(crate) fn remove(&mut self, named: &PolicyRef) -> Option<Arc<Registered>> {
        self.place(named).map(|place| self.all.remove(place))
    }

    /// Takes those out whose time is over (`xfrm_policy_timer` of Linux; a soft limit of time has no effect here).
    pub(crate) fn age(&mut self) -> Vec<Arc<Registered>> {
        let now = seconds();
        let is_over = |policy: &mut Arc<Registered>| {
            let last = policy.used.last.load(Ordering::Relaxed).max(policy.added);
            let past = |from: u64, limit: u64| limit > 0 && now.saturating_sub(from) >= limit;
            let limits = &policy.policy.limits;
            past(policy.added, limits.hard_add_seconds) || past(last, limits.hard_use_seconds)
        };
        self.all.extract_if(.., is_over).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    pub(crate) fn all(&self) -> &[Arc<Registered>] {
        &self.all
    }
}

fn is(policy: &Policy, selector: &gantry_abi_xfrm::Selector, direction: Direction) -> bool {
    policy.selector == *selector && policy.direction == direction
}

/// Refuses what there is not.
fn check(policy: &Policy) -> Result<(), Refusal> {
    let refuse = |what: &'static str| Err(Refusal::new(libc::EOPNOTSUPP, what));
    if policy.kind != 0 {
        return refuse("sub-policies are not served");
    }
    if policy.mark.is_some() || policy.interface_id != 0 || policy.offload.is_some() {
        return refuse("marks, XFRM interfaces and network cards are not served");
    }
    let has_templates = policy.templates.iter().any(|template| !template.optional);
    if policy.action == Action::Allow && has_templates && template(policy).is_none() {
        return refuse("only tunnel mode is served");
    }
    if policy.templates.iter().filter(|template| !template.optional).count() > 1 {
        return refuse("packets go through one SA");
    }
    Ok(())
}
