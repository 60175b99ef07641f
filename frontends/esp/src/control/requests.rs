//! The requests and their answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gantry_abi_xfrm::constants::flag;
use gantry_abi_xfrm::{
    Acquire, Action, AsyncEvent, Counters, Datagram, Direction, Expire, Family, Frame, KeyVisibility, Mapping, Message,
    Policy, PolicyExpire, Port, Prefix, Sa, SaId, SadInfo, Selector, SpdInfo, Verdict, Verdicts,
};

use super::connection::MAX_DUMP_PART_BYTES;
use super::steering::{self, host_addresses};
use crate::packet::ip::Flow;
use crate::route::Routes;
use crate::shared::{Event, Shared, lock};
use crate::table::{Associations, InstalledPolicy, LimitKind, Policies, Refusal};

/// All SAs, policies and routes.
pub(crate) struct State {
    pub(crate) associations: Associations,
    pub(crate) policies: Policies,
    pub(crate) routes: Arc<Mutex<Routes>>,
    /// Destinations whose packets leave through the tunnel or not at all, regardless of policies.
    pub(crate) protected: Vec<Prefix>,
    /// The sequence number of the last acquire message.
    pub(crate) last_acquire: u32,
}

/// The datagrams for a program that sent a message, and the events for other programs.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) datagrams: Vec<Datagram>,
    pub(crate) events: Vec<Message>,
}

type Response = Result<Vec<Message>, Refusal>;

impl State {
    /// Answers one message of a program.
    pub(crate) fn answer(&mut self, frame: &Frame<'_>, port: u32, wants_texts: bool, shared: &Shared) -> Answer {
        let header = &frame.header;
        let mut answer = Answer::default();
        let message = match Message::parse(frame) {
            Ok(message) => message,
            Err(error) => {
                let mut datagram = Datagram::new();
                datagram.acknowledge(frame, port, error.errno(), wants_texts.then(|| error.to_string()).as_deref());
                answer.datagrams.push(datagram);
                return answer;
            }
        };
        let done = match message {
            Message::DumpSa(filter) => {
                let all = self.associations.all();
                let all = all.into_iter().map(super::super::table::Entry::snapshot).filter(|sa| filter.matches(sa));
                answer.datagrams = dump(frame, port, all.map(|sa| Message::NewSa(sa.into())));
                return answer;
            }
            Message::DumpPolicy => {
                let all = self.policies.all().map(|policy| Message::NewPolicy(current_state(policy).into()));
                answer.datagrams = dump(frame, port, all);
                return answer;
            }
            message => self.execute(message, shared, &mut answer.events),
        };
        let mut datagram = Datagram::new();
        match done {
            Ok(messages) => {
                for message in &messages {
                    datagram.push(message, 0, header.sequence, port, KeyVisibility::Shown);
                }
                if header.wants_ack() {
                    datagram.acknowledge(frame, port, 0, None);
                }
            }
            Err(Refusal { errno, text }) => {
                datagram.acknowledge(frame, port, errno, Some(&*text).filter(|_| wants_texts));
            }
        }
        answer.datagrams.push(datagram);
        answer
    }

    fn execute(&mut self, message: Message, shared: &Shared, events: &mut Vec<Message>) -> Response {
        match message {
            Message::NewSa(sa) => self.add_sa(*sa, false, shared, events),
            Message::UpdSa(sa) => self.add_sa(*sa, true, shared, events),
            Message::DelSa(named) => {
                let entry = self.associations.remove(&named.id).ok_or_else(no_sa)?;
                events.push(Message::SaDeleted(entry.snapshot().into()));
                Ok(Vec::new())
            }
            Message::GetSa(named) => {
                let entry = self.associations.get(&named.id).ok_or_else(no_sa)?;
                Ok(vec![Message::NewSa(entry.snapshot().into())])
            }
            Message::FlushSa(protocol) => {
                let all = self.associations.all();
                let ids: Vec<SaId> = all
                    .iter()
                    .map(|entry| entry.sa.id)
                    .filter(|id| protocol == id.protocol || ANY_PROTOCOL.contains(&protocol))
                    .collect();
                for id in ids {
                    self.associations.remove(&id);
                }
                events.push(Message::FlushSa(protocol));
                Ok(Vec::new())
            }
            Message::AllocSpi(request) => Ok(vec![Message::NewSa(self.associations.allocate(&request)?.into())]),
            Message::NewPolicy(policy) => self.add_policy(*policy, false, shared, events),
            Message::UpdPolicy(policy) => self.add_policy(*policy, true, shared, events),
            Message::DelPolicy(named) => {
                let policy = self.policies.remove(&named).ok_or_else(no_policy)?;
                events.push(Message::PolicyDeleted(current_state(&policy).into()));
                shared.view.change(|view| view.replace_policy(Some(&policy), None));
                self.steer(Some(&policy), None, shared)?;
                Ok(Vec::new())
            }
            Message::GetPolicy(named) => {
                let policy = self.policies.get(&named).ok_or_else(no_policy)?;
                Ok(vec![Message::NewPolicy(current_state(policy).into())])
            }
            Message::FlushPolicy { kind } => {
                if kind == 0 {
                    let removed = self.policies.clear();
                    events.push(Message::FlushPolicy { kind });
                    self.steer_without(&removed, shared)?;
                }
                Ok(Vec::new())
            }
            Message::GetSadInfo(flags) => {
                let count = self.associations.len() as u32;
                Ok(vec![Message::NewSadInfo(SadInfo { flags, count, ..SadInfo::default() })])
            }
            Message::GetSpdInfo(flags) => {
                let of = |direction| {
                    self.policies.all().filter(|policy| policy.policy.direction == direction).count() as u32
                };
                let counts = [of(Direction::In), of(Direction::Out), of(Direction::Forward), 0, 0, 0];
                Ok(vec![Message::NewSpdInfo(SpdInfo { flags, counts: Some(counts), ..SpdInfo::default() })])
            }
            Message::GetAe(desired) => {
                let entry = self.associations.get(&desired.id).ok_or_else(no_sa)?;
                Ok(vec![Message::NewAe(AsyncEvent::of(&entry.snapshot(), desired.flags).into())])
            }
            Message::GetDefault(_) => {
                let accept = Verdict::Accept;
                Ok(vec![Message::GetDefault(Verdicts { input: accept, forward: accept, output: accept })])
            }
            Message::SetDefault(Verdicts { input, forward, output })
                if [input, forward, output].contains(&Verdict::Block) =>
            {
                Err(Refusal::new(
                    libc::EOPNOTSUPP,
                    "a default of `block` is not supported: packets without a policy bypass this data path",
                ))
            }
            // The default verdict, which is fixed, and the prefix lengths from which Linux hashes policies are accepted
            // without effect.
            Message::SetDefault(_) | Message::NewSpdInfo(_) => Ok(Vec::new()),
            _ => Err(Refusal::new(libc::EOPNOTSUPP, "this message is not supported")),
        }
    }

    fn add_sa(&mut self, sa: Sa, is_update: bool, shared: &Shared, events: &mut Vec<Message>) -> Response {
        let (id, source) = (sa.id, sa.source);
        // An SA from one of this host's addresses is for outgoing packets, unless both addresses are this host's.
        self.associations
            .add(sa, is_update, |address| is_own_address(address, || !is_cached_own_address(source, shared), shared))?;
        if let Some(entry) = self.associations.get(&id) {
            let sa = entry.snapshot().into();
            events.push(if is_update { Message::UpdSa(sa) } else { Message::NewSa(sa) });
        }
        // The SA may have exceeded its new limits already.
        events.extend(self.associations.enforce_limits(&id).map(|(sa, reached)| expire(sa, reached)));
        Ok(Vec::new())
    }

    fn add_policy(&mut self, policy: Policy, is_update: bool, shared: &Shared, events: &mut Vec<Message>) -> Response {
        if steering::protects_neighbours(&policy) {
            return Err(Refusal::new(libc::EOPNOTSUPP, "packets to link-local addresses are not protected"));
        }
        let replaced = self.policies.find(&policy.selector, policy.direction).cloned();
        let added = self.policies.add(policy, is_update)?;
        // The routes come first: no packet leaves in clear while the threads still use the old view.
        if let Err(refusal) = self.steer(replaced.as_deref(), Some(&added), shared) {
            self.policies.revert_add(&added, replaced);
            return Err(refusal);
        }
        shared.view.change(|view| view.replace_policy(replaced.as_deref(), Some(&added)));
        let policy = current_state(&added).into();
        events.push(if is_update { Message::UpdPolicy(policy) } else { Message::NewPolicy(policy) });
        Ok(Vec::new())
    }

    /// Steers or admits the packets of a new policy, and stops doing so for the packets of an old policy.
    fn steer(
        &mut self,
        old: Option<&InstalledPolicy>,
        new: Option<&InstalledPolicy>,
        shared: &Shared,
    ) -> Result<(), Refusal> {
        let [old_steered, new_steered] = [old, new].map(|policy| policy.map(steering::steered_policy));
        let mut routes = lock(&self.routes);
        let mut done = routes.steer(old_steered.as_ref(), new_steered.as_ref());
        if let Some(Policy { index, action, .. }) = new.or(old).map(|policy| &policy.policy) {
            // A daemon blocks a policy's packets while it updates the policy. Sockets keep their route and source during the update.
            let keeps = new.is_some() && *action == Action::Block && routes.has_policy_route(*index);
            if !keeps {
                let find_own = |network: &Prefix| own_address(network, shared);
                let route = new.and_then(|policy| steering::policy_route(&policy.policy, find_own));
                done = done.and(routes.replace_policy_route(*index, route));
            }
        }
        shared.set_guard_status(routes.guard_status());
        let steers = routes.steers();
        drop(routes);
        done.map_err(|error| routes_refusal(&error))?;
        let affects_routes = |policy: &InstalledPolicy| {
            policy.policy.direction == Direction::Out
                && (!steers || steering::affects_destination_routes(&policy.policy, &self.policies, &self.protected))
        };
        if [old, new].into_iter().flatten().any(affects_routes) { self.install_routes(shared) } else { Ok(()) }
    }

    /// Takes removed policies out of the view, and routes their packets as if the policies had never existed.
    fn steer_without(&mut self, removed: &[Arc<InstalledPolicy>], shared: &Shared) -> Result<(), Refusal> {
        for policy in removed {
            shared.view.change(|view| view.replace_policy(Some(policy), None));
        }
        let mut routes = lock(&self.routes);
        let remaining: Vec<_> = self.policies.all().map(|policy| steering::steered_policy(policy)).collect();
        let mut done = routes.steer_all(&remaining);
        for policy in removed {
            done = done.and(routes.replace_policy_route(policy.policy.index, None));
        }
        drop(routes);
        done.map_err(|error| routes_refusal(&error))?;
        self.install_routes(shared)
    }

    /// Installs the routes by destination.
    pub(crate) fn install_routes(&mut self, shared: &Shared) -> Result<(), Refusal> {
        let mut routes = lock(&self.routes);
        let desired = |steers| {
            steering::compute_destination_routes(self.policies.all(), &self.protected, &host_addresses(), steers)
        };
        let steers = routes.steers();
        let mut installed = routes.install(desired(steers));
        // The first attempt shows whether the kernel has a firewall.
        if steers && !routes.steers() {
            installed = installed.and_then(|()| routes.install(desired(false)));
        }
        shared.set_guard_status(routes.guard_status());
        installed.map_err(|error| routes_refusal(&error))
    }

    /// Applies time limits. Returns the resulting events.
    pub(crate) fn apply_time_limits(&mut self, shared: &Shared) -> Vec<Message> {
        let mut events: Vec<Message> = Vec::new();
        let expirations = self.associations.enforce_all_limits(Instant::now());
        let policies = self.policies.remove_expired();
        events.extend(expirations.into_iter().map(|(sa, reached)| expire(sa, reached)));
        if !policies.is_empty() {
            // Expired policies protect nothing any more. A leftover route leads nowhere.
            let _ = self.steer_without(&policies, shared);
        }
        events.extend(
            policies.iter().map(|policy| {
                Message::PolicyExpire(PolicyExpire { policy: current_state(policy), is_hard: true }.into())
            }),
        );
        events
    }

    /// Returns the messages to the daemon about an event of a thread.
    pub(crate) fn handle_event(&mut self, event: Event) -> Vec<Message> {
        match event {
            Event::SaRequested(policy, flow) => self.acquire(&policy, &flow).into_iter().collect(),
            Event::LimitReached(id, serial, reached) => {
                let reached = self.associations.handle_limit_report(&id, serial, reached);
                reached.into_iter().map(|(sa, reached)| expire(sa, reached)).collect()
            }
            Event::PeerMoved(id, serial, to) => self.mapping(&id, serial, to).into_iter().collect(),
        }
    }

    /// Builds the request for an SA.
    fn acquire(&mut self, policy: &InstalledPolicy, flow: &Flow) -> Option<Message> {
        self.last_acquire = self.last_acquire.wrapping_add(1).max(1);
        let template = crate::table::required_template(&policy.policy)?;
        let exact = |address: IpAddr| Prefix { address, length: Family::of(address).bits() };
        // The packet fills in fields that the template leaves open (`xfrm_tmpl_resolve_one` of Linux).
        let resolve = |address: IpAddr, own| if address.is_unspecified() { own } else { address };
        let (source, destination) = crate::table::sa_addresses(template, flow);
        let port = |value| Port { value, mask: u16::MAX };
        let selector = Selector {
            source: exact(flow.source),
            destination: exact(flow.destination),
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
            protocol: flow.protocol,
            ..Selector::any(Family::of(flow.source))
        };
        Some(Message::Acquire(
            Acquire {
                id: SaId { destination: resolve(destination, flow.destination), spi: 0, ..template.id },
                source: resolve(source, flow.source),
                selector,
                policy: policy.policy.clone(),
                authentications: template.authentications,
                ciphers: template.ciphers,
                compressions: template.compressions,
                sequence: self.last_acquire,
            }
            .into(),
        ))
    }

    /// Builds the notification that the peer of an SA has moved.
    fn mapping(&self, id: &SaId, serial: u64, to: SocketAddr) -> Option<Message> {
        let entry = self.associations.get(id).filter(|entry| entry.serial == serial)?;
        let old_port = entry.sa.encapsulation.map_or(0, |encapsulation| encapsulation.source_port);
        Some(Message::Mapping(Mapping {
            id: *id,
            reqid: entry.sa.reqid,
            old_source: entry.sa.source,
            new_source: to.ip(),
            old_port,
            new_port: to.port(),
        }))
    }
}

/// Protocols that match all: none, and IPSEC_PROTO_ANY (`xfrm_id_proto_match` of Linux).
const ANY_PROTOCOL: [u8; 2] = [0, 255];

fn no_sa() -> Refusal {
    Refusal::new(libc::ESRCH, "there is no such SA")
}

fn routes_refusal(error: &std::io::Error) -> Refusal {
    Refusal::new(error.raw_os_error().unwrap_or(libc::EIO), format!("cannot change the routes: {error}"))
}

/// Returns whether this host has an address. If the address is unknown and `is_new` returns true, reads the current addresses, because
/// the daemon may have just added it.
fn is_own_address(address: IpAddr, is_new: impl FnOnce() -> bool, shared: &Shared) -> bool {
    is_cached_own_address(address, shared) || is_new() && host_addresses().contains(&address)
}

/// Returns an address of this host in a network; `None` in a network of all addresses.
fn own_address(network: &Prefix, shared: &Shared) -> Option<IpAddr> {
    if network.length == Family::of(network.address).bits() {
        return Some(network.address).filter(|address| is_own_address(*address, || true, shared));
    }
    let is_one = |address: &IpAddr| !address.is_loopback() && network.contains(*address);
    (network.length > 0).then(host_addresses)?.into_iter().find(is_one)
}

fn is_cached_own_address(address: IpAddr, shared: &Shared) -> bool {
    shared.view.read().local_addresses.is_own(address)
}

fn no_policy() -> Refusal {
    Refusal::new(libc::ENOENT, "there is no such policy")
}

/// Returns a policy in its current state. As on Linux, the use time of a policy is the time of the last use, and the use time of an SA is
/// the time of the first use. Daemons take a recent use as a sign that the peer is alive (`__xfrm_policy_check`).
fn current_state(policy: &InstalledPolicy) -> Policy {
    let use_time = policy.usage.last_used.load(Ordering::Relaxed);
    let counters = Counters { use_time, ..policy.usage.counters(policy.added) };
    Policy { counters, ..policy.policy.clone() }
}

fn expire(sa: Sa, reached: LimitKind) -> Message {
    Message::Expire(Expire { sa, is_hard: reached == LimitKind::Hard }.into())
}

/// Splits a long answer into datagrams.
fn dump(frame: &Frame<'_>, port: u32, messages: impl Iterator<Item = Message>) -> Vec<Datagram> {
    let mut datagrams = vec![Datagram::new()];
    for message in messages {
        let Some(datagram) = datagrams.last_mut() else { break };
        let before = datagram.len();
        datagram.push(&message, flag::MULTI, frame.header.sequence, port, KeyVisibility::Shown);
        if datagram.len() > MAX_DUMP_PART_BYTES && before > 0 {
            datagram.truncate(before);
            let mut next = Datagram::new();
            next.push(&message, flag::MULTI, frame.header.sequence, port, KeyVisibility::Shown);
            datagrams.push(next);
        }
    }
    let mut end = Datagram::new();
    end.done(&frame.header, port);
    datagrams.push(end);
    datagrams.retain(|datagram| !datagram.is_empty());
    datagrams
}
