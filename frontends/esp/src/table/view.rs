//! The view that the threads of the data path use: SAs by SPI, and policies by selector. A change of one SA or policy takes a few look-ups,
//! however many others there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gantry_abi_xfrm::{Action, Direction, Mode, Policy, SaId, Template};

use super::association::{ActiveSa, IncomingSa, OutgoingSa, Usage};
use super::selector::{PolicyOrder, SelectorIndex};
use crate::local_addresses::LocalAddresses;
use crate::packet::ip::Flow;

/// A policy in force.
#[derive(Debug)]
pub(crate) struct InstalledPolicy {
    /// The policy, with the index that it has here.
    pub(crate) policy: Policy,
    /// Time of addition, in seconds since 1970.
    pub(crate) added: u64,
    pub(crate) usage: Usage,
    /// Time of the last request for an SA, in milliseconds of the process' clock; 0 before the first.
    pub(crate) last_request_ms: AtomicU64,
}

impl InstalledPolicy {
    /// Returns the policy's place among all policies. Indexes ascend in the order of arrival.
    pub(crate) fn order(&self) -> PolicyOrder {
        (self.policy.priority, self.policy.index)
    }
}

/// The treatment of packets that match a policy for outgoing packets.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Refuses the packets. Policies that let packets pass unprotected have this verdict, too: their packets are routed past the tunnel.
    Block,
    /// Sends the packets through this SA, once there is one.
    Protect(Option<Arc<OutgoingSa>>),
}

/// A policy for outgoing packets.
#[derive(Debug)]
pub(crate) struct OutgoingRule {
    pub(crate) policy: Arc<InstalledPolicy>,
    pub(crate) verdict: Verdict,
}

/// Destination, source, reqid and mode that a template asks for.
type TemplateKey = (IpAddr, IpAddr, u32, Mode);
/// Among SAs that match the same template, later SAs are preferred, but dying SAs come last (`xfrm_state_look_at` of Linux).
type Preference = (bool, Reverse<u64>);

#[derive(Debug, Default)]
pub(crate) struct View {
    /// SAs for incoming packets by SPI, in the byte order of the machine.
    pub(crate) incoming: HashMap<u32, Arc<IncomingSa>>,
    /// SAs for outgoing packets.
    pub(crate) outgoing: HashMap<SaId, Arc<OutgoingSa>>,
    /// SAs for outgoing packets by the template that they fit, the preferred SA first.
    by_template: HashMap<TemplateKey, BTreeMap<Preference, Arc<OutgoingSa>>>,
    /// Policies for incoming, outgoing and forwarded packets.
    policies: [SelectorIndex<Arc<InstalledPolicy>>; 3],
    pub(crate) local_addresses: LocalAddresses,
}

impl View {
    pub(super) fn add(&mut self, sa: &ActiveSa) {
        match sa {
            ActiveSa::In(sa) => _ = self.incoming.insert(sa.id.spi, sa.clone()),
            ActiveSa::Out(sa) => {
                self.outgoing.insert(sa.id, sa.clone());
                self.set_preference(sa, false);
            }
        }
    }

    pub(super) fn remove(&mut self, sa: &ActiveSa) {
        match sa {
            ActiveSa::In(sa) => _ = self.incoming.remove(&sa.id.spi),
            ActiveSa::Out(sa) => {
                self.outgoing.remove(&sa.id);
                self.remove_preference(sa);
            }
        }
    }

    /// Sets the place of an SA among the SAs that match the same template.
    pub(super) fn set_preference(&mut self, sa: &Arc<OutgoingSa>, is_dying: bool) {
        self.remove_preference(sa);
        for key in template_keys(sa) {
            self.by_template.entry(key).or_default().insert((is_dying, Reverse(sa.serial)), sa.clone());
        }
    }

    fn remove_preference(&mut self, sa: &OutgoingSa) {
        for key in template_keys(sa) {
            let Some(candidates) = self.by_template.get_mut(&key) else { continue };
            for is_dying in [false, true] {
                candidates.remove(&(is_dying, Reverse(sa.serial)));
            }
            if candidates.is_empty() {
                self.by_template.remove(&key);
            }
        }
    }

    /// Returns whether this is an SA of transport mode, and another peer behind the same NAT has an SA with the same addresses and reqid.
    /// Packets for one peer would go to the other (RFC 3948, 5.2).
    pub(crate) fn has_other_peer(&self, sa: &OutgoingSa) -> bool {
        let [key, _] = template_keys(sa);
        let of_other = |other: &Arc<OutgoingSa>| other.endpoints().to != sa.endpoints().to;
        sa.info.is_transport() && self.by_template.get(&key).is_some_and(|candidates| candidates.values().any(of_other))
    }

    /// Replaces a policy by another one. `None` stands for no policy.
    pub(crate) fn replace_policy(&mut self, old: Option<&InstalledPolicy>, new: Option<&Arc<InstalledPolicy>>) {
        if let Some(old) = old {
            self.policies[old.policy.direction as usize].remove(&old.policy.selector, old.order());
        }
        if let Some(new) = new {
            self.policies[new.policy.direction as usize].insert(&new.policy.selector, new.order(), new.clone());
        }
    }

    /// Returns the policies of a direction by priority.
    pub(crate) fn policies(&self, direction: Direction) -> impl Iterator<Item = &Arc<InstalledPolicy>> {
        self.policies[direction as usize].values()
    }

    pub(crate) fn policy_count(&self) -> usize {
        self.policies.iter().map(SelectorIndex::len).sum()
    }

    /// Returns the policy for an outgoing packet, and the SA that it has now.
    pub(crate) fn outgoing_rule(&self, flow: &Flow) -> Option<OutgoingRule> {
        let policy = self.policies[Direction::Out as usize].first(flow)?;
        let verdict = match (policy.policy.action, required_template(&policy.policy)) {
            (Action::Allow, Some(template)) => Verdict::Protect(self.find_sa(template, flow).cloned()),
            _ => Verdict::Block,
        };
        Some(OutgoingRule { policy: policy.clone(), verdict })
    }

    fn find_sa(&self, template: &Template, flow: &Flow) -> Option<&Arc<OutgoingSa>> {
        let Template { id, reqid, mode, .. } = *template;
        let (source, destination) = sa_addresses(template, flow);
        if id.spi != 0 {
            let sa = self.outgoing.get(&SaId { destination, ..id })?;
            return (sa.info.mode == mode && (mode == Mode::Tunnel || sa.info.source == source)).then_some(sa);
        }
        self.by_template.get(&(destination, source, reqid, mode))?.first_key_value().map(|(_, sa)| sa)
    }

    /// Returns the policy that admits a packet of an SA. As in Linux (`xfrm_policy_check`), packets to this host need a policy of direction
    /// `in`, and packets to others one of `fwd`. The first match decides (RFC 4301, 5.2).
    pub(crate) fn admitting_policy(&self, flow: &Flow, sa: &IncomingSa) -> Option<&InstalledPolicy> {
        let direction = if self.local_addresses.is_local_destination(flow.destination) {
            Direction::In
        } else {
            Direction::Forward
        };
        let policy = self.policies[direction as usize].first(flow)?;
        let is_sas = required_template(&policy.policy).is_some_and(|template| {
            let Template { id, reqid, mode, .. } = *template;
            let (source, destination) = sa_addresses(template, flow);
            let any = |wanted: IpAddr, got| wanted.is_unspecified() || wanted == got;
            mode == sa.info.mode
                && any(destination, sa.id.destination)
                && any(source, sa.info.source)
                && (reqid == 0 || reqid == sa.info.reqid)
                && (id.spi == 0 || id.spi == sa.id.spi)
        });
        (policy.policy.action == Action::Allow && is_sas).then_some(&**policy)
    }
}

/// Returns the keys of templates that an SA fits: templates with the SA's reqid, and templates without a reqid.
fn template_keys(sa: &OutgoingSa) -> [TemplateKey; 2] {
    [sa.info.reqid, 0].map(|reqid| (sa.id.destination, sa.info.source, reqid, sa.info.mode))
}

/// Returns the first template of tunnel or transport mode that is not optional.
pub(crate) fn required_template(policy: &Policy) -> Option<&Template> {
    let is_served = |template: &&Template| matches!(template.mode, Mode::Tunnel | Mode::Transport);
    policy.templates.iter().filter(is_served).find(|template| !template.optional)
}

/// Returns source and destination of the SA that a template asks for. In transport mode they are those of the packet
/// (`xfrm_tmpl_resolve_one` of Linux).
pub(crate) fn sa_addresses(template: &Template, flow: &Flow) -> (IpAddr, IpAddr) {
    match template.mode {
        Mode::Transport => (flow.source, flow.destination),
        _ => (template.source, template.id.destination),
    }
}
