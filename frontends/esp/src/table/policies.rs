//! Policies, found by selector and direction, or by index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_abi_xfrm::{Action, Direction, Policy, PolicyRef, Selector, constants};

use super::association::{UNSUPPORTED_MODE, Usage, unix_seconds};
use super::view::{InstalledPolicy, required_template};
use super::{Refusal, check_marks, is_mark};
use crate::packet::ip::{DCCP, GRE, ICMP, ICMPV6, SCTP, TCP, UDP, UDP_LITE};

/// Maximum number of policies.
const MAX_POLICIES: usize = 65_536;
/// Number of index bits that encode the direction.
const DIRECTION_BITS: u32 = 3;

/// All policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    /// All policies by index. Indexes ascend in the order of arrival.
    by_index: BTreeMap<u32, Arc<InstalledPolicy>>,
    indexes: HashMap<(Selector, Direction), u32>,
    /// The indexes of the policies that let outgoing packets pass unprotected.
    passing_indexes: BTreeSet<u32>,
    /// The number in the last assigned index, above the bits of the direction.
    last_number: u32,
}

impl Policies {
    /// Adds a policy, or replaces the policy with the same selector and direction. Returns the added policy.
    ///
    /// # Errors
    /// EEXIST if a policy exists and `is_update` is false; EOPNOTSUPP for unsupported features.
    pub(crate) fn add(&mut self, mut policy: Policy, is_update: bool) -> Result<Arc<InstalledPolicy>, Refusal> {
        check_features(&policy)?;
        let existing = self.indexes.get(&(policy.selector, policy.direction)).copied();
        match existing {
            Some(_) if !is_update => {
                return Err(Refusal::new(libc::EEXIST, "a policy with this selector exists already"));
            }
            None if self.by_index.len() >= MAX_POLICIES || self.last_number == u32::MAX >> DIRECTION_BITS => {
                return Err(Refusal::new(libc::ENOBUFS, "too many policies"));
            }
            _ => {}
        }
        policy.index = existing.unwrap_or_else(|| {
            self.last_number += 1;
            self.last_number << DIRECTION_BITS | policy.direction as u32
        });
        let new = InstalledPolicy {
            policy,
            added: unix_seconds(),
            usage: Usage::default(),
            last_request_ms: AtomicU64::new(0),
        };
        let new = Arc::new(new);
        self.insert(new.clone());
        Ok(new)
    }

    /// Takes back an addition. `replaced` is the policy that had this selector before.
    pub(crate) fn revert_add(&mut self, added: &InstalledPolicy, replaced: Option<Arc<InstalledPolicy>>) {
        match replaced {
            Some(replaced) => self.insert(replaced),
            None => _ = self.remove_by_index(added.policy.index),
        }
    }

    fn insert(&mut self, policy: Arc<InstalledPolicy>) {
        let Policy { selector, direction, index, .. } = policy.policy;
        self.indexes.insert((selector, direction), index);
        if direction == Direction::Out && passes_unprotected(&policy.policy) {
            self.passing_indexes.insert(index);
        } else {
            self.passing_indexes.remove(&index);
        }
        self.by_index.insert(index, policy);
    }

    fn remove_by_index(&mut self, index: u32) -> Option<Arc<InstalledPolicy>> {
        let removed = self.by_index.remove(&index)?;
        self.passing_indexes.remove(&index);
        self.indexes.remove(&(removed.policy.selector, removed.policy.direction));
        Some(removed)
    }

    /// Returns the policy that a request names: by index, or by selector and direction. Returns `None` if the request also names a mark, an
    /// XFRM interface or a kind (`xfrm_policy_bysel_ctx` of Linux), because no policy here has them.
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
        self.remove_by_index(index)
    }

    /// Removes expired policies (`xfrm_policy_timer` of Linux; soft time limits have no effect here).
    pub(crate) fn remove_expired(&mut self) -> Vec<Arc<InstalledPolicy>> {
        let now = unix_seconds();
        let is_over = |policy: &InstalledPolicy| {
            let last = policy.usage.last_used.load(Ordering::Relaxed).max(policy.added);
            let past = |from: u64, limit: u64| limit > 0 && now.saturating_sub(from) >= limit;
            let limits = &policy.policy.limits;
            past(policy.added, limits.hard_add_seconds) || past(last, limits.hard_use_seconds)
        };
        let expired: Vec<u32> =
            self.by_index.iter().filter(|(_, policy)| is_over(policy)).map(|(index, _)| *index).collect();
        expired.into_iter().filter_map(|index| self.remove_by_index(index)).collect()
    }

    /// Removes and returns all policies.
    pub(crate) fn clear(&mut self) -> Vec<Arc<InstalledPolicy>> {
        self.indexes.clear();
        self.passing_indexes.clear();
        std::mem::take(&mut self.by_index).into_values().collect()
    }

    /// Iterates over all policies in the order of arrival.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<InstalledPolicy>> {
        self.by_index.values()
    }

    /// Iterates over the policies that let outgoing packets pass unprotected.
    pub(crate) fn passing(&self) -> impl Iterator<Item = &Arc<InstalledPolicy>> {
        self.passing_indexes.iter().filter_map(|index| self.by_index.get(index))
    }
}

/// Returns whether the packets of a policy need an SA.
pub(crate) fn needs_sa(policy: &Policy) -> bool {
    policy.templates.iter().any(|template| !template.optional)
}

/// Returns whether a policy lets packets pass unprotected.
pub(crate) fn passes_unprotected(policy: &Policy) -> bool {
    policy.action == Action::Allow && !needs_sa(policy)
}

/// Refuses unsupported features.
fn check_features(policy: &Policy) -> Result<(), Refusal> {
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
    if policy.selector.interface_index != 0 && (policy.action == Action::Block || has_templates) {
        return refuse("policies of one interface are supported only if they let packets pass");
    }
    if policy.flags & constants::policy::ICMP != 0 {
        return refuse("the flag `icmp` is not supported");
    }
    if policy.action == Action::Allow && has_templates && required_template(policy).is_none() {
        return refuse(UNSUPPORTED_MODE);
    }
    if policy.templates.iter().filter(|template| !template.optional).count() > 1 {
        return refuse("only one SA for each packet is supported");
    }
    Ok(())
}
