//! What the threads of the data path look at: SAs by SPI, and policies in their order. It is made anew whenever something changes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gantry_abi_xfrm::{Action, Direction, Mode, Policy, Template};

use super::association::{Incoming, Outgoing, Use};
use super::selector::matches;
use crate::own::Own;
use crate::packet::ip::Flow;

/// A policy that is in force.
#[derive(Debug)]
pub(crate) struct Registered {
    /// Its index is the one that it has here.
    pub(crate) policy: Policy,
    /// When it was added, in seconds since 1970.
    pub(crate) added: u64,
    pub(crate) used: Use,
    /// When the daemon was last asked for an SA, in milliseconds of the process' clock; 0 before.
    pub(crate) asked: AtomicU64,
}

/// What becomes of packets that leave by a policy.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// They are refused: because the policy says so, or because it lets them pass as they are, which routes have to do.
    Block,
    /// They leave by this SA, once there is one.
    Protect(Option<Arc<Outgoing>>),
}

/// A policy for packets that leave.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Arc<Registered>,
    pub(crate) verdict: Verdict,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// By SPI, in the byte order of the machine.
    pub(crate) incoming: HashMap<u32, Arc<Incoming>>,
    /// By priority.
    pub(crate) leaving: Vec<Rule>,
    /// Policies for packets that arrive or are forwarded, by priority.
    pub(crate) arriving: Vec<Arc<Registered>>,
    /// All SAs by which packets leave.
    pub(crate) outgoing: Vec<Arc<Outgoing>>,
}

/// What a template asks of an SA.
type Wanted = (IpAddr, IpAddr, u32);

impl View {
    /// `outgoing` in the order of preference.
    pub(super) fn new(
        incoming: HashMap<u32, Arc<Incoming>>,
        outgoing: Vec<Arc<Outgoing>>,
        policies: &[Arc<Registered>],
    ) -> Self {
        let mut ends: HashMap<Wanted, &Arc<Outgoing>> = HashMap::new();
        for sa in &outgoing {
            for reqid in [sa.about.reqid, 0] {
                ends.entry((sa.id.destination, sa.about.source, reqid)).or_insert(sa);
            }
        }
        let (mut leaving, mut arriving) = (Vec::new(), Vec::new());
        for policy in policies {
            match policy.policy.direction {
                Direction::Out => {
                    let verdict = match (policy.policy.action, template(&policy.policy)) {
                        (Action::Allow, Some(template)) => {
                            let Template { id, source, reqid, .. } = template;
                            let by_spi = (id.spi != 0).then(|| outgoing.iter().find(|sa| sa.id == *id));
                            let found = by_spi.unwrap_or_else(|| ends.get(&(id.destination, *source, *reqid)).copied());
                            Verdict::Protect(found.cloned())
                        }
                        _ => Verdict::Block,
                    };
                    leaving.push(Rule { policy: policy.clone(), verdict });
                }
                Direction::In | Direction::Forward => arriving.push(policy.clone()),
            }
        }
        // A sort that keeps the order of what has one priority.
        leaving.sort_by_key(|rule: &Rule| rule.policy.policy.priority);
        arriving.sort_by_key(|policy: &Arc<Registered>| policy.policy.priority);
        Self { incoming, leaving, arriving, outgoing }
    }

    /// The place of the policy for a packet that leaves.
    pub(crate) fn rule(&self, flow: &Flow) -> Option<usize> {
        self.leaving.iter().position(|rule| matches(&rule.policy.policy.selector, flow))
    }

    /// The policy that lets a packet of an SA pass. As in Linux (`xfrm_policy_check`), packets to this host have policies of `in`, and packets to
    /// others have policies of `fwd`; the first one that matches decides (RFC 4301, 5.2).
    pub(crate) fn admits(&self, flow: &Flow, sa: &Incoming, own: &Own) -> Option<&Registered> {
        let direction = if own.has(flow.destination) { Direction::In } else { Direction::Forward };
        let mut policies = self.arriving.iter().filter(|policy| policy.policy.direction == direction);
        let policy = policies.find(|policy| matches(&policy.policy.selector, flow))?;
        let is_sas =
            template(&policy.policy).filter(|template| template.mode == Mode::Tunnel).is_some_and(|template| {
                let Template { id, source, reqid, .. } = template;
                let any = |wanted: IpAddr, got| wanted.is_unspecified() || wanted == got;
                any(id.destination, sa.id.destination)
                    && any(*source, sa.peer.ip())
                    && (*reqid == 0 || *reqid == sa.about.reqid)
                    && (id.spi == 0 || id.spi == sa.id.spi)
            });
        (policy.policy.action == Action::Allow && is_sas).then_some(&**policy)
    }
}

/// The template that counts: the first that packets cannot do without. No SA here is what one of transport mode without addresses asks for:
/// libreswan holds packets by it, and installs another policy when it is asked for the SA.
pub(crate) fn template(policy: &Policy) -> Option<&Template> {
    policy.templates.iter().find(|template| {
        let is_open = template.source.is_unspecified() && template.id.destination.is_unspecified();
        !template.optional && (template.mode == Mode::Tunnel || template.mode == Mode::Transport && is_open)
    })
}
