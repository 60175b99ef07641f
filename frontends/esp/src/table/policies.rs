//! Policies, found by selector and direction, or by index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_abi_xfrm::{Action, Direction, Policy, PolicyRef, Selector, constants};

use super::association::{MODES, Usage, seconds};
use super::view::{InstalledPolicy, template};
use super::{Refusal, check_marks, is_mark};
use crate::packet::ip::{DCCP, GRE, ICMP, ICMPV6, SCTP, TCP, UDP, UDP_LITE};

/// Maximum number of policies.
const MOST: usize = 65_536;
/// Number of index bits that encode the direction.
const DIRECTION: u32 = 3;

/// All policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    /// All policies by index. Indexes ascend in the order of arrival.
    by_index: BTreeMap<u32, Arc<InstalledPolicy>>,
    indexes: HashMap<(Selector, Direction), u32>,
    /// The indexes of the policies that let outgoing packets pass unprotected.
    passing: BTreeSet<u32>,
    next: u32,
}

impl Policies {
    /// Adds a policy, or replaces the policy with the same selector and direction. Returns the added policy.
    ///
    /// # Errors
    /// EEXIST if a policy exists and `update` is false; EOPNOTSUPP for unsupported features.
    pub(crate) fn add(&mut self, mut policy: Policy, update: bool) -> Result<Arc<InstalledPolicy>, Refusal> {
        check(&policy)?;
        let existing = self.indexes.get(&(policy.selector, policy.direction)).copied();
        match existing {
            Some(_) if !update => return Err(Refusal::new(libc::EEXIST, "a policy with this selector exists already")),
            None if self.by_index.len() >= MOST || self.next == u32::MAX >> DIRECTION => {
                return Err(Refusal::new(libc::ENOBUFS, "too many policies"));
            }
            _ => {}
        }
        policy.index = existing.unwrap_or_else(|| {
            self.next += 1;
            self.next << DIRECTION | policy.direction as u32
        });
        let new =
            InstalledPolicy { policy, added: seconds(), usage: Usage::default(), last_request: AtomicU64::new(0) };
        let new = Arc::new(new);
        self.put(new.clone());
        Ok(new)
    }

    /// Takes back an addition. `replaced` is the policy that had this selector before.
    pub(crate) fn revert(&mut self, added: &InstalledPolicy, replaced: Option<Arc<InstalledPolicy>>) {
        match replaced {
            Some(replaced) => self.put(replaced),
            None => _ = self.take(added.policy.index),
        }
    }

    fn put(&mut self, policy: Arc<InstalledPolicy>) {
        let Policy { selector, direction, index, .. } = policy.policy;
        self.indexes.insert((selector, direction), index);
        if direction == Direction::Out && passes(&policy.policy) {
            self.passing.insert(index);
        } else {
            self.passing.remove(&index);
        }
        self.by_index.insert(index, policy);
    }

    fn take(&mut self, index: u32) -> Option<Arc<InstalledPolicy>> {
        let taken = self.by_index.remove(&index)?;
        self.passing.remove(&index);
        self.indexes.remove(&(taken.policy.selector, taken.policy.direction));
        Some(taken)
    }

    /// Returns a policy by its name. Mark, XFRM interface and kind belong to the name (`xfrm_policy_bysel_ctx` of Linux), and no policy
    /// here has them.
    pub(crate) fn get(&self, named: &PolicyRef) -> Option<&Arc<InstalledPolicy>> {
        if is_mark(named.mark) || named.interface_id != 0 || named.kind != 0 {
            return None;
        }
        if named.index == 0 {
            return self.find(&named.selector, named.direction);
        }
        self.by_index.get(&named.index).filter(|installed| installed.policy.direction == named.direction)
    }

    /// Returns the policy of a selector.
    pub(crate) fn find(&self, selector: &Selector, direction: Direction) -> Option<&Arc<InstalledPolicy>> {
        self.by_index.get(self.indexes.get(&(*selector, direction))?)
    }

    pub(crate) fn remove(&mut self, named: &PolicyRef) -> Option<Arc<InstalledPolicy>> {
        let index = self.get(named)?.policy.index;
        self.take(index)
    }

    /// Removes expired policies (`xfrm_policy_timer` of Linux; soft time limits have no effect here).
    pub(crate) fn age(&mut self) -> Vec<Arc<InstalledPolicy>> {
        let now = seconds();
        let is_over = |policy: &InstalledPolicy| {
            let last = policy.usage.last.load(Ordering::Relaxed).max(policy.added);
            let past = |from: u64, limit: u64| limit > 0 && now.saturating_sub(from) >= limit;
            let limits = &policy.policy.limits;
            past(policy.added, limits.hard_add_seconds) || past(last, limits.hard_use_seconds)
        };
        let expired: Vec<u32> =
            self.by_index.iter().filter(|(_, policy)| is_over(policy)).map(|(index, _)| *index).collect();
        expired.into_iter().filter_map(|index| self.take(index)).collect()
    }

    /// Removes and returns all policies.
    pub(crate) fn clear(&mut self) -> Vec<Arc<InstalledPolicy>> {
        self.indexes.clear();
        self.passing.clear();
        std::mem::take(&mut self.by_index).into_values().collect()
    }

    /// Iterates over all policies in the order of arrival.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<InstalledPolicy>> {
        self.by_index.values()
    }

    /// Iterates over the policies that let outgoing packets pass unprotected.
    pub(crate) fn passing(&self) -> impl Iterator<Item = &Arc<InstalledPolicy>> {
        self.passing.iter().filter_map(|index| self.by_index.get(index))
    }
}

/// Returns whether the packets of a policy need an SA.
pub(crate) fn needs_sa(policy: &Policy) -> bool {
    policy.templates.iter().any(|template| !template.optional)
}

/// Returns whether a policy lets packets pass unprotected.
pub(crate) fn passes(policy: &Policy) -> bool {
    policy.action == Action::Allow && !needs_sa(policy)
}

/// Refuses unsupported features.
fn check(policy: &Policy) -> Result<(), Refusal> {
    let refuse = |what: &'static str| Err(Refusal::new(libc::EOPNOTSUPP, what));
    if policy.kind != 0 {
        return refuse("sub-policies are not supported");
    }
    check_marks(&[policy.mark], policy.interface_id)?;
    if policy.offload.is_some() {
        return refuse("offload to a network card is not supported");
    }
    let Selector { protocol, source_port, destination_port, .. } = policy.selector;
    let has_ports = [TCP, UDP, UDP_LITE, SCTP, DCCP, ICMP, ICMPV6, GRE].contains(&protocol);
    if source_port.mask | destination_port.mask != 0 && !has_ports {
        return refuse("ports, types and keys are supported only with the protocol that has them");
    }
    let has_templates = needs_sa(policy);
    if policy.selector.interface != 0 && (policy.action == Action::Block || has_templates) {
        return refuse("policies of one interface are supported only if they let packets pass");
    }
    if policy.flags & constants::policy::ICMP != 0 {
        return refuse("the flag `icmp` is not supported");
    }
    if policy.action == Action::Allow && has_templates && template(policy).is_none() {
        return refuse(MODES);
    }
    if policy.templates.iter().filter(|template| !template.optional).count() > 1 {
        return refuse("only one SA for each packet is supported");
    }
    Ok(())
}
