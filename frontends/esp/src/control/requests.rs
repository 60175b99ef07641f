//! What each request does, and its answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gantry_abi_xfrm::constants::flag;
use gantry_abi_xfrm::{
    Acquire, AsyncEvent, Counters, Datagram, Direction, Expire, Family, Frame, Keys, Mapping, Message, Policy,
    PolicyExpire, Port, Prefix, Sa, SaId, SadInfo, Selector, SpdInfo, Verdict, Verdicts,
};

use super::connection::PART;
use super::steering::{self, addresses};
use crate::packet::ip::Flow;
use crate::route::Routes;
use crate::shared::{Event, Shared, lock};
use crate::table::{Associations, Policies, Reached, Refusal, Registered};

/// All SAs, policies and routes.
pub(crate) struct State {
    pub(crate) associations: Associations,
    pub(crate) policies: Policies,
    pub(crate) routes: Arc<Mutex<Routes>>,
    /// Destinations whose packets leave through the tunnel or not at all, whatever policies there are.
    pub(crate) protect: Vec<Prefix>,
    /// Numbers of questions for SAs.
    pub(crate) asked: u32,
}

/// An answer, and what others are to be told.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) datagrams: Vec<Datagram>,
    pub(crate) events: Vec<Message>,
}

type Done = Result<Vec<Message>, Refusal>;

impl State {
    /// Answers one message of a program.
    pub(crate) fn answer(&mut self, frame: &Frame<'_>, port: u32, texts: bool, shared: &Shared) -> Answer {
        let header = &frame.header;
        let mut answer = Answer::default();
        let message = match Message::parse(frame) {
            Ok(message) => message,
            Err(error) => {
                let mut datagram = Datagram::new();
                datagram.acknowledge(frame, port, error.errno(), texts.then(|| error.to_string()).as_deref());
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
                let all = self.policies.all().iter().map(|policy| Message::NewPolicy(current(policy).into()));
                answer.datagrams = dump(frame, port, all);
                return answer;
            }
            message => self.act(message, shared, &mut answer.events),
        };
        let mut datagram = Datagram::new();
        match done {
            Ok(messages) => {
                for message in &messages {
                    datagram.push(message, 0, header.sequence, port, Keys::Shown);
                }
                if header.wants_ack() {
                    datagram.acknowledge(frame, port, 0, None);
                }
            }
            Err(Refusal { errno, text }) => datagram.acknowledge(frame, port, errno, Some(&*text).filter(|_| texts)),
        }
        answer.datagrams.push(datagram);
        answer
    }

    fn act(&mut self, message: Message, shared: &Shared, events: &mut Vec<Message>) -> Done {
        match message {
            Message::NewSa(sa) => self.add_sa(*sa, false, shared, events),
            Message::UpdSa(sa) => self.add_sa(*sa, true, shared, events),
            Message::DelSa(named) => {
                let entry = self.associations.remove(&named.id).ok_or_else(no_sa)?;
                events.push(Message::SaDeleted(entry.snapshot().into()));
                self.publish(shared);
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
                    .filter(|id| protocol == id.protocol || ANY.contains(&protocol))
                    .collect();
                for id in ids {
                    self.associations.remove(&id);
                }
                events.push(Message::FlushSa(protocol));
                self.publish(shared);
                Ok(Vec::new())
            }
            Message::AllocSpi(request) => Ok(vec![Message::NewSa(self.associations.allocate(&request)?.into())]),
            Message::NewPolicy(policy) => self.add_policy(*policy, false, shared, events),
            Message::UpdPolicy(policy) => self.add_policy(*policy, true, shared, events),
            Message::DelPolicy(named) => {
                let policy = self.policies.remove(&named).ok_or_else(no_policy)?;
                events.push(Message::PolicyDeleted(current(&policy).into()));
                self.publish(shared);
                self.steer(shared)?;
                Ok(Vec::new())
            }
            Message::GetPolicy(named) => {
                let policy = self.policies.get(&named).ok_or_else(no_policy)?;
                Ok(vec![Message::NewPolicy(current(policy).into())])
            }
            Message::FlushPolicy { kind } => {
                if kind == 0 {
                    self.policies.clear();
                    events.push(Message::FlushPolicy { kind });
                    self.publish(shared);
                    self.steer(shared)?;
                }
                Ok(Vec::new())
            }
            Message::GetSadInfo(flags) => {
                let count = self.associations.all().len() as u32;
                Ok(vec![Message::NewSadInfo(SadInfo { flags, count, ..SadInfo::default() })])
            }
            Message::GetSpdInfo(flags) => {
                let of = |direction| {
                    self.policies.all().iter().filter(|policy| policy.policy.direction == direction).count() as u32
                };
                let counts = [of(Direction::In), of(Direction::Out), of(Direction::Forward), 0, 0, 0];
                Ok(vec![Message::NewSpdInfo(SpdInfo { flags, counts: Some(counts), ..SpdInfo::default() })])
            }
            Message::GetAe(wanted) => {
                let entry = self.associations.get(&wanted.id).ok_or_else(no_sa)?;
                Ok(vec![Message::NewAe(AsyncEvent::of(&entry.snapshot(), wanted.flags).into())])
            }
            Message::GetDefault(_) => {
                let accept = Verdict::Accept;
                Ok(vec![Message::GetDefault(Verdicts { input: accept, forward: accept, output: accept })])
            }
            Message::SetDefault(Verdicts { input, forward, output })
                if [input, forward, output].contains(&Verdict::Block) =>
            {
                Err(Refusal::new(libc::EOPNOTSUPP, "what no policy is for does not come here"))
            }
            // What is the default here in any case; and from which lengths of prefixes on Linux hashes policies.
            Message::SetDefault(_) | Message::NewSpdInfo(_) => Ok(Vec::new()),
            _ => Err(Refusal::new(libc::EOPNOTSUPP, "this message is not served")),
        }
    }

    fn add_sa(&mut self, sa: Sa, update: bool, shared: &Shared, events: &mut Vec<Message>) -> Done {
        let ours = addresses();
        let id = sa.id;
        self.associations.add(sa, update, |address| ours.contains(&address))?;
        if let Some(entry) = self.associations.get(&id) {
            entry.find_path();
            let sa = entry.snapshot().into();
            events.push(if update { Message::UpdSa(sa) } else { Message::NewSa(sa) });
        }
        // The SA may be beyond its new limits already.
        events.extend(self.associations.due(&id).map(|(sa, reached)| expire(sa, reached)));
        self.publish(shared);
        Ok(Vec::new())
    }

    fn add_policy(&mut self, policy: Policy, update: bool, shared: &Shared, events: &mut Vec<Message>) -> Done {
        let before = self.policies.clone();
        let place = self.policies.add(policy, update)?;
        // The routes come first: no packet leaves in clear while the threads still look at the old view.
        if let Err(refusal) = self.steer(shared) {
            self.policies = before;
            return Err(refusal);
        }
        let policy = current(&self.policies.all()[place]).into();
        events.push(if update { Message::UpdPolicy(policy) } else { Message::NewPolicy(policy) });
        self.publish(shared);
        Ok(Vec::new())
    }

    /// Has the routes lead into the tunnel what policies are for.
    pub(crate) fn steer(&mut self, shared: &Shared) -> Result<(), Refusal> {
        let wanted = steering::wanted(self.policies.all(), &self.protect, &addresses());
        let mut routes = lock(&self.routes);
        let installed = routes.install(wanted);
        shared.set_guards(routes.guards());
        installed.map_err(|error| {
            Refusal::new(error.raw_os_error().unwrap_or(libc::EIO), format!("a route could not be changed: {error}"))
        })
    }

    pub(crate) fn publish(&self, shared: &Shared) {
        shared.publish(self.associations.view(&self.policies));
    }

    /// What time has done since the last call.
    pub(crate) fn age(&mut self, shared: &Shared) -> Vec<Message> {
        let mut events: Vec<Message> = Vec::new();
        let aged = self.associations.age(Instant::now());
        let policies = self.policies.age();
        if !aged.is_empty() || !policies.is_empty() {
            self.publish(shared);
        }
        events.extend(aged.into_iter().map(|(sa, reached)| expire(sa, reached)));
        if !policies.is_empty() {
            // Those that are over protect nothing any more. If a route stays, it leads to nowhere.
            let _ = self.steer(shared);
        }
        events.extend(
            policies
                .iter()
                .map(|policy| Message::PolicyExpire(PolicyExpire { policy: current(policy), hard: true }.into())),
        );
        events
    }

    /// The messages to the daemon about an event of a thread.
    pub(crate) fn tell(&mut self, event: Event, shared: &Shared) -> Vec<Message> {
        match event {
            Event::Wanted(policy, flow) => self.acquire(&policy, &flow).into_iter().collect(),
            Event::Reached(id, serial, reached) => {
                let reached = self.associations.reached(&id, serial, reached);
                if !reached.is_empty() {
                    self.publish(shared);
                }
                reached.into_iter().map(|(sa, reached)| expire(sa, reached)).collect()
            }
            Event::Moved(id, serial, to) => self.mapping(&id, serial, to).into_iter().collect(),
        }
    }

    /// The question for an SA.
    fn acquire(&mut self, policy: &Registered, flow: &Flow) -> Option<Message> {
        self.asked = self.asked.wrapping_add(1).max(1);
        let template = crate::table::template(&policy.policy)?;
        let exact = |address: IpAddr| Prefix { address, length: Family::of(address).bits() };
        // The packet closes what the template leaves open (`xfrm_tmpl_resolve_one` of Linux).
        let closed = |address: IpAddr, own| if address.is_unspecified() { own } else { address };
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
                id: SaId { destination: closed(template.id.destination, flow.destination), spi: 0, ..template.id },
                source: closed(template.source, flow.source),
                selector,
                policy: policy.policy.clone(),
                authentications: template.authentications,
                ciphers: template.ciphers,
                compressions: template.compressions,
                sequence: self.asked,
            }
            .into(),
        ))
    }

    /// The message that the peer of an SA has moved.
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

/// Protocols that stand for all: none, and IPSEC_PROTO_ANY (`xfrm_id_proto_match` of Linux).
const ANY: [u8; 2] = [0, 255];

fn no_sa() -> Refusal {
    Refusal::new(libc::ESRCH, "there is no such SA")
}

fn no_policy() -> Refusal {
    Refusal::new(libc::ENOENT, "there is no such policy")
}

/// A policy as it is now. Linux has the time of its last use in it, and not of the first, as it has of an SA; daemons take that for a sign that
/// the peer lives (`__xfrm_policy_check`).
fn current(policy: &Registered) -> Policy {
    let use_time = policy.used.last.load(Ordering::Relaxed);
    let counters = Counters { use_time, ..policy.used.counters(policy.added) };
    Policy { counters, ..policy.policy.clone() }
}

fn expire(sa: Sa, reached: Reached) -> Message {
    Message::Expire(Expire { sa, hard: reached == Reached::Hard }.into())
}

/// A long answer, in parts.
fn dump(frame: &Frame<'_>, port: u32, messages: impl Iterator<Item = Message>) -> Vec<Datagram> {
    let mut datagrams = vec![Datagram::new()];
    for message in messages {
        let Some(datagram) = datagrams.last_mut() else { break };
        let before = datagram.len();
        datagram.push(&message, flag::MULTI, frame.header.sequence, port, Keys::Shown);
        if datagram.len() > PART && before > 0 {
            datagram.truncate(before);
            let mut next = Datagram::new();
            next.push(&message, flag::MULTI, frame.header.sequence, port, Keys::Shown);
            datagrams.push(next);
        }
    }
    let mut end = Datagram::new();
    end.done(&frame.header, port);
    datagrams.push(end);
    datagrams.retain(|datagram| !datagram.is_empty());
    datagrams
}
