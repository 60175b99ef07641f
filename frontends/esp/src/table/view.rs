//! The view that the threads of the data path use: SAs by SPI, and policies by priority. Every change builds a new one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use gantry_abi_xfrm::{Action, Direction, Mode, Policy, Template};

use super::association::{IncomingSa, OutgoingSa, Usage};
use super::selector::Index;
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
    pub(crate) last_request: AtomicU64,
}

/// The treatment of packets that match a policy for outgoing packets.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Refuses the packets. Policies that let packets pass unprotected are here, too: their packets are routed past the tunnel.
    Block,
    /// Sends the packets through this SA, once there is one.
    Protect(Option<Arc<OutgoingSa>>),
}

/// A policy for outgoing packets.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Arc<InstalledPolicy>,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// SAs for incoming packets by SPI, in the byte order of the machine.
    pub(crate) incoming: Arc<HashMap<u32, Arc<IncomingSa>>>,
    /// Policies for outgoing packets, by priority.
    pub(crate) outbound_rules: Arc<Vec<Rule>>,
    /// Policies for incoming and forwarded packets, by priority.
    pub(crate) inbound_policies: Arc<Vec<Arc<InstalledPolicy>>>,
    /// All SAs for outgoing packets.
    pub(crate) outgoing: Arc<Vec<Arc<OutgoingSa>>>,
    /// Indexes of the policies for outgoing, incoming and forwarded packets. The first packet builds each.
    indexes: Arc<[OnceLock<Index>; 3]>,
}

/// Destination, source and reqid that a template asks for.
type TemplateKey = (IpAddr, IpAddr, u32);

impl View {
    /// Builds a view. `outgoing` is in the order of preference.
    pub(super) fn new(
        incoming: HashMap<u32, Arc<IncomingSa>>,
        outgoing: Vec<Arc<OutgoingSa>>,
        policies: &[Arc<InstalledPolicy>],
    ) -> Self {
        let mut ends: HashMap<TemplateKey, &Arc<OutgoingSa>> = HashMap::new();
        for sa in &outgoing {
            for reqid in [sa.info.reqid, 0] {
                ends.entry((sa.id.destination, sa.info.source, reqid)).or_insert(sa);
            }
        }
        let mut outbound_rules: Vec<Rule> = Vec::new();
        for policy in policies.iter().filter(|policy| policy.policy.direction == Direction::Out) {
            let verdict = match (policy.policy.action, template(&policy.policy)) {
                (Action::Allow, Some(template)) => {
                    let Template { id, source, reqid, .. } = template;
                    let by_spi = (id.spi != 0).then(|| outgoing.iter().find(|sa| sa.id == *id));
                    let found = by_spi.unwrap_or_else(|| ends.get(&(id.destination, *source, *reqid)).copied());
                    Verdict::Protect(found.cloned())
                }
                _ => Verdict::Block,
            };
            outbound_rules.push(Rule { policy: policy.clone(), verdict });
        }
        // The sort is stable: policies of equal priority keep their order.
        outbound_rules.sort_by_key(|rule| rule.policy.policy.priority);
        let (incoming, outbound_rules) = (incoming.into(), outbound_rules.into());
        Self { incoming, outbound_rules, outgoing: outgoing.into(), ..Self::default() }.with_inbound(policies)
    }

    /// Returns this view with other policies for incoming and forwarded packets.
    pub(crate) fn with_inbound(&self, policies: &[Arc<InstalledPolicy>]) -> Self {
        let inbound = policies.iter().filter(|policy| policy.policy.direction != Direction::Out);
        let mut inbound: Vec<_> = inbound.cloned().collect();
        inbound.sort_by_key(|policy| policy.policy.priority);
        Self { inbound_policies: inbound.into(), indexes: Arc::default(), ..self.clone() }
    }

    /// Returns the position of the policy for an outgoing packet.
    pub(crate) fn rule(&self, flow: &Flow) -> Option<usize> {
        let rules = &self.outbound_rules;
        let selector = |at: usize| &rules[at].policy.policy.selector;
        let index = || Index::new((0..rules.len()).map(|at| (at, selector(at))));
        self.indexes[0].get_or_init(index).first(flow, selector)
    }

    /// Returns the policy that admits a packet of an SA. As in Linux (`xfrm_policy_check`), packets to this host need a policy of direction
    /// `in`, and packets to others one of `fwd`. The first match decides (RFC 4301, 5.2).
    pub(crate) fn admits(
        &self,
        flow: &Flow,
        sa: &IncomingSa,
        local_addresses: &LocalAddresses,
    ) -> Option<&InstalledPolicy> {
        let direction = if local_addresses.has(flow.destination) { Direction::In } else { Direction::Forward };
        let policies = &self.inbound_policies;
        let selector = |at: usize| &policies[at].policy.selector;
        let all = (0..policies.len()).filter(|at| policies[*at].policy.direction == direction);
        let index = || Index::new(all.map(|at| (at, selector(at))));
        let place = 1 + usize::from(direction == Direction::Forward);
        let policy = &policies[self.indexes[place].get_or_init(index).first(flow, selector)?];
        let is_sas =
            template(&policy.policy).filter(|template| template.mode == Mode::Tunnel).is_some_and(|template| {
                let Template { id, source, reqid, .. } = template;
                let any = |wanted: IpAddr, got| wanted.is_unspecified() || wanted == got;
                any(id.destination, sa.id.destination)
                    && any(*source, sa.peer.ip())
                    && (*reqid == 0 || *reqid == sa.info.reqid)
                    && (id.spi == 0 || id.spi == sa.id.spi)
            });
        (policy.policy.action == Action::Allow && is_sas).then_some(&**policy)
    }
}

/// Returns the first template that is not optional. A template of transport mode without addresses matches no SA here: libreswan uses it to
/// hold packets, and installs another policy when it is asked for the SA.
pub(crate) fn template(policy: &Policy) -> Option<&Template> {
    policy.templates.iter().find(|template| {
        let is_open = template.source.is_unspecified() && template.id.destination.is_unspecified();
        !template.optional && (template.mode == Mode::Tunnel || template.mode == Mode::Transport && is_open)
    })
}
