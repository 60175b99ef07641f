mod limits;
mod numbers;
mod scale;
pub(crate) mod transport;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, extra, state};
use gantry_abi_xfrm::{
    AllocSpi, Direction, Encapsulation, Family, Key, Limits, Mark, Mode, NamedAead, NamedAlgorithm,
    NamedAuthentication, Policy, PolicyRef, Port, Prefix, Replay, ReplayEsn, Sa, SaId, Selector, Template,
};
use gantry_core::Gantry;

use super::*;
use crate::local_addresses::LocalAddresses;
use crate::packet::ip::Flow;

pub(crate) const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

pub(crate) fn gantry() -> Gantry {
    gantry_runtime::open(gantry_runtime::Config::default()).unwrap()
}

pub(crate) fn id(destination: IpAddr, spi: u32) -> SaId {
    SaId { destination, spi, protocol: 50 }
}

/// Builds an AES-GCM SA between the two addresses.
pub(crate) fn sa(to: IpAddr, spi: u32) -> Sa {
    let from = if to == FAR { NEAR } else { FAR };
    let mut sa = Sa::new(id(to, spi), from);
    sa.mode = Mode::Tunnel;
    sa.reqid = 7;
    sa.replay_window = 32;
    sa.aead = Some(NamedAead { name: "rfc4106(gcm(aes))".to_owned(), key: Key::new(&[spi as u8; 36]), icv_bits: 128 });
    let (source_port, destination_port) = (4500, 4500);
    sa.encapsulation = Some(Encapsulation { kind: ENCAP_ESPINUDP, source_port, destination_port, original: to });
    sa
}

pub(crate) fn policy(direction: Direction, priority: u32, protocol: u8) -> Policy {
    let net = |third| Prefix { address: [10, 1, third, 0].into(), length: 24 };
    let (source, destination) = if direction == Direction::Out { (net(1), net(2)) } else { (net(2), net(1)) };
    let mut policy = Policy::new(Selector { source, destination, protocol, ..Selector::any(Family::Ipv4) }, direction);
    policy.priority = priority;
    let (from, to) = if direction == Direction::Out { (NEAR, FAR) } else { (FAR, NEAR) };
    policy.templates = vec![Template {
        id: id(to, 0),
        source: from,
        reqid: 7,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        authentications: u32::MAX,
        ciphers: u32::MAX,
        compressions: u32::MAX,
    }];
    policy
}

pub(crate) fn flow(out: bool, protocol: u8) -> Flow {
    let (source, destination) = ([10, 1, 1, 9].into(), [10, 1, 2, 9].into());
    let (source, destination) = if out { (source, destination) } else { (destination, source) };
    Flow { source, destination, protocol, source_port: 1, destination_port: 2 }
}

fn is_near(address: IpAddr) -> bool {
    address == NEAR
}

/// Makes an SA to the far end reach a limit.
fn reach(associations: &mut Associations, spi: u32, limit: LimitKind) {
    let entry = associations.get(&id(FAR, spi)).unwrap();
    let serial = entry.serial;
    let limits = match limit {
        LimitKind::Soft => Limits { soft_packets: 0, ..Limits::NONE },
        LimitKind::Hard => Limits { hard_packets: 0, ..Limits::NONE },
    };
    associations.add(Sa { limits, ..entry.sa.clone() }, true, is_near).unwrap();
    let reached = associations.handle_limit_report(&id(FAR, spi), serial, limit);
    assert_eq!(reached.iter().map(|(_, reached)| *reached).collect::<Vec<_>>(), [limit]);
}

/// Adds a policy to the table and to the view.
pub(crate) fn install(associations: &Associations, policies: &mut Policies, policy: Policy) -> Arc<InstalledPolicy> {
    let added = policies.add(policy, false).unwrap();
    associations.view.change(|view| view.replace_policy(None, Some(&added)));
    added
}

/// Returns the SPI of the SA for an outgoing flow.
fn leaves_by(associations: &Associations) -> Option<u32> {
    match associations.view.read().outgoing_rule(&flow(true, 6))?.verdict {
        Verdict::Protect(sa) => sa.map(|sa| sa.id.spi),
        Verdict::Block => None,
    }
}

#[test]
fn the_latest_sa_that_is_not_dying_is_preferred() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    install(&associations, &mut policies, policy(Direction::Out, 100, 0));
    assert_eq!(leaves_by(&associations), None);
    associations.add(sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), Some(0x1001));
    associations.add(sa(FAR, 0x1002), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), Some(0x1002));
    reach(&mut associations, 0x1002, LimitKind::Soft);
    assert_eq!(leaves_by(&associations), Some(0x1001), "a dying SA comes last");
    associations.remove(&id(FAR, 0x1001)).unwrap();
    assert_eq!(leaves_by(&associations), Some(0x1002));
    reach(&mut associations, 0x1002, LimitKind::Hard);
    assert_eq!(leaves_by(&associations), None);
    let mut other = sa(FAR, 0x1003);
    other.reqid = 8;
    associations.add(other, false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), None, "an SA of another policy");
}

#[test]
fn the_policy_with_the_lowest_priority_value_decides() {
    let (associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    let mut block = policy(Direction::Out, 50, 17);
    block.action = gantry_abi_xfrm::Action::Block;
    install(&associations, &mut policies, policy(Direction::Out, 100, 0));
    install(&associations, &mut policies, block);
    let view = associations.view.read();
    let verdict = |protocol| view.outgoing_rule(&flow(true, protocol)).unwrap().verdict;
    assert!(matches!(verdict(17), Verdict::Block) && matches!(verdict(6), Verdict::Protect(None)));
    assert!(view.outgoing_rule(&flow(false, 6)).is_none());
}

#[test]
fn incoming_packets_need_a_policy_of_their_sa() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    associations.add(sa(NEAR, 0x2001), false, is_near).unwrap();
    let mut other = sa(NEAR, 0x2002);
    other.reqid = 9;
    associations.add(other, false, is_near).unwrap();
    let view = associations.view.clone();
    let admits = |spi, flow: Flow| {
        let [local, forwarded] = [true, false].map(|is_local| {
            let local_addresses = LocalAddresses::new(is_local.then_some((flow.destination, 32)).into_iter());
            view.change(|view| view.local_addresses = local_addresses);
            let view = view.read();
            view.admitting_policy(&flow, &view.incoming[&spi]).is_some()
        });
        (local, forwarded)
    };
    assert_eq!(admits(0x2001, flow(false, 6)), (false, false), "nothing without a policy");
    install(&associations, &mut policies, policy(Direction::In, 100, 0));
    assert_eq!(admits(0x2001, flow(false, 6)), (true, false), "forwarded packets need another policy");
    assert_eq!(admits(0x2001, flow(true, 6)), (false, false));
    assert_eq!(admits(0x2002, flow(false, 6)), (false, false), "under the SA of another policy");
    install(&associations, &mut policies, policy(Direction::Forward, 100, 0));
    assert_eq!(admits(0x2001, flow(false, 6)), (true, true));
    for (direction, admitted) in [(Direction::In, (false, true)), (Direction::Forward, (true, false))] {
        let mut block = policy(direction, 50, 6);
        block.action = gantry_abi_xfrm::Action::Block;
        let block = install(&associations, &mut policies, block);
        assert_eq!(admits(0x2001, flow(false, 6)), admitted, "a blocking policy ends the search");
        assert_eq!(admits(0x2001, flow(false, 17)), (true, true));
        view.change(|view| view.replace_policy(Some(&block), None));
        assert_eq!(admits(0x2001, flow(false, 6)), (true, true));
    }
}

#[test]
fn an_spi_is_reserved_and_gets_its_keys() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let request = |lowest, highest| AllocSpi { sa: sa(NEAR, 0), lowest, highest };
    let spi = associations.allocate(&request(0x3000, 0x3001)).unwrap().id.spi;
    let second = associations.allocate(&request(0x3000, 0x3001)).unwrap().id.spi;
    assert_eq!(spi + second, 0x6001, "both of the range");
    assert_eq!(associations.allocate(&request(0x3000, 0x3001)).unwrap_err().errno, libc::ENOENT);
    assert_eq!(associations.allocate(&request(9, 8)).unwrap_err().errno, libc::ENOENT);
    for protocol in [51, 108] {
        let mut other = request(0x100, 0xFFFF);
        other.sa.id.protocol = protocol;
        assert_eq!(associations.allocate(&other).unwrap_err().errno, libc::EPROTONOSUPPORT);
    }
    assert_eq!(associations.allocate(&request(0, 255)).unwrap_err().errno, libc::ENOENT, "these are reserved");
    associations.add(sa(NEAR, spi), true, is_near).unwrap();
    assert!(matches!(associations.get(&id(NEAR, spi)).unwrap().active, Some(ActiveSa::In(_))));
    let late = Instant::now() + Duration::from_secs(166);
    let ended: Vec<u32> = associations.enforce_all_limits(late).iter().map(|(sa, _)| sa.id.spi).collect();
    assert_eq!(ended, [second], "an SPI does not wait for ever");
}

#[test]
fn ids_and_selectors_are_unique() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let errno = |done: Result<(), Refusal>| done.unwrap_err().errno;
    assert_eq!(errno(associations.add(sa(FAR, 0x1001), true, is_near)), libc::ESRCH);
    associations.add(sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(errno(associations.add(sa(FAR, 0x1001), false, is_near)), libc::EEXIST);
    // A peer may choose an SPI that this host has also assigned.
    associations.add(sa(NEAR, 0x1001), false, is_near).unwrap();
    let mut second = sa(NEAR, 0x1001);
    second.id.destination = [10, 0, 0, 3].into();
    assert_eq!(errno(associations.add(second, false, |_| true)), libc::EEXIST, "packets would not be told apart");

    let mut policies = Policies::default();
    let index = policies.add(policy(Direction::Out, 1, 6), false).unwrap().policy.index;
    assert_eq!(policies.add(policy(Direction::Out, 2, 6), false).unwrap_err().errno, libc::EEXIST);
    policies.add(policy(Direction::Out, 2, 6), true).unwrap();
    let all: Vec<_> = policies.all().map(|policy| (policy.policy.priority, policy.policy.index)).collect();
    assert_eq!(all, [(2, index)]);
    let mut named = PolicyRef {
        selector: policy(Direction::Out, 1, 6).selector,
        index: 0,
        direction: Direction::In,
        kind: 0,
        mark: None,
        interface_id: 0,
        unknown: Vec::new(),
    };
    assert!(policies.get(&named).is_none());
    (named.index, named.direction) = (index, Direction::Out);
    let mark = Some(Mark { value: 5, mask: 0xFF });
    let others = [(mark, 0, 0), (None, 7, 0), (None, 0, 1)];
    for (mark, interface_id, kind) in others {
        let other = PolicyRef { mark, interface_id, kind, ..named.clone() };
        assert!(policies.remove(&other).is_none(), "{other:?}");
    }
    named.mark = Some(Mark { value: 0, mask: 0 });
    assert!(policies.remove(&named).is_some() && policies.all().count() == 0);
}

#[test]
fn an_update_changes_limits() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    associations.add(sa(FAR, 0x1001), false, is_near).unwrap();
    let mut update = sa(FAR, 0x1001);
    update.limits = Limits { hard_add_seconds: 10, ..Limits::NONE };
    associations.add(update, true, is_near).unwrap();
    assert_eq!(associations.get(&id(FAR, 0x1001)).unwrap().snapshot().limits.hard_add_seconds, 10);
}

#[test]
fn time_limits_mark_an_sa_as_dying_once_and_then_remove_it() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut limited = sa(FAR, 0x1001);
    limited.limits = Limits { soft_add_seconds: 10, hard_add_seconds: 20, ..Limits::NONE };
    associations.add(limited, false, is_near).unwrap();
    let mut after = |seconds| {
        let expirations = associations.enforce_all_limits(Instant::now() + Duration::from_secs(seconds));
        expirations.into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
    };
    assert_eq!(after(5), []);
    assert_eq!((after(12), after(13)), (vec![LimitKind::Soft], vec![]));
    assert_eq!((after(21), after(22)), (vec![LimitKind::Hard], vec![]));
}

#[test]
fn volume_limits_are_reported_once_and_end_an_sa() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut limited = sa(FAR, 0x1001);
    limited.limits = Limits { soft_packets: 10, hard_packets: 20, hard_bytes: 5000, ..Limits::NONE };
    associations.add(limited, false, is_near).unwrap();
    let Some(ActiveSa::Out(sa)) = associations.get(&id(FAR, 0x1001)).unwrap().active.clone() else {
        panic!("the SA is not outgoing")
    };
    let count = |packets, bytes| sa.volume_limits.take_reached(sa.usage.count(1, packets, bytes));
    assert_eq!((count(9, 100), count(1, 100), count(1, 100)), (None, Some(LimitKind::Soft), None));
    assert!(!sa.volume_limits.are_exceeded_by(&sa.usage));
    assert_eq!((count(1, 4700), count(1, 1)), (Some(LimitKind::Hard), None), "bytes count as well");
    assert!(sa.volume_limits.are_exceeded_by(&sa.usage));
}

#[test]
fn sequence_numbers_of_a_moved_sa_continue() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut out = sa(FAR, 0x1001);
    out.replay = Some(Replay { output: 500, input: 0, bitmap: 0 });
    associations.add(out, false, is_near).unwrap();
    let mut back = sa(NEAR, 0x1001);
    back.flags |= state::ESN;
    back.replay_esn = Some(ReplayEsn { output: 0, input: (3 << 32) + 9, window: 64, bitmap: vec![0; 2] });
    associations.add(back, false, is_near).unwrap();
    let replay = associations.get(&id(FAR, 0x1001)).unwrap().snapshot().replay.unwrap();
    assert_eq!((replay.output, replay.input), (500, 0));
    let esn = associations.get(&id(NEAR, 0x1001)).unwrap().snapshot().replay_esn.unwrap();
    assert_eq!((esn.output, esn.input, esn.window), (0, (3 << 32) + 9, 64));
}

#[test]
fn unsupported_features_are_refused() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut refused = |change: &dyn Fn(&mut Sa)| {
        let mut sa = sa(FAR, 0x1001);
        change(&mut sa);
        associations.add(sa, false, is_near).unwrap_err().errno
    };
    let authentication =
        |bits| Some(NamedAuthentication { name: "hmac(sha256)".to_owned(), key: Key::new(&[1; 32]), icv_bits: bits });
    let cipher = |name: &str| Some(NamedAlgorithm { name: name.to_owned(), key: Key::new(&[1; 16]) });
    let apart =
        |sa: &mut Sa, name, bits| (sa.aead, sa.cipher, sa.authentication) = (None, cipher(name), authentication(bits));
    assert_eq!(refused(&|sa| sa.encapsulation.as_mut().unwrap().kind = 1), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.mode = Mode::Beet), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.id.protocol = 51), libc::EPROTONOSUPPORT);
    assert_eq!(refused(&|sa| sa.mark = Some(Mark { value: 1, mask: 1 })), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.interface_id = 1), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.extra_flags = extra::OSEQ_MAY_WRAP), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.selector.source.length = 16), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.selector.destination_port = Port { value: 80, mask: 0xFFFF }), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.flags |= state::WILDRECV), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.flags |= state::ICMP), libc::EOPNOTSUPP);
    // The peer may have any port, this host only one.
    assert_eq!(refused(&|sa| sa.encapsulation.as_mut().unwrap().source_port = 4501), libc::EOPNOTSUPP);
    assert_eq!(refused(&|sa| sa.flags |= state::ESN), libc::EINVAL);
    assert_eq!(refused(&|sa| sa.aead.as_mut().unwrap().icv_bits = 32), libc::ENOSYS);
    assert_eq!(refused(&|sa| sa.aead.as_mut().unwrap().key = Key::new(&[0; 35])), libc::EINVAL);
    assert_eq!(refused(&|sa| sa.aead = None), libc::ENOSYS);
    assert_eq!(refused(&|sa| apart(sa, "cbc(camellia)", Some(128))), libc::ENOSYS);
    assert_eq!(refused(&|sa| apart(sa, "cbc(aes)", Some(64))), libc::ENOSYS);
    let mut sa = sa(FAR, 0x1001);
    apart(&mut sa, "cbc(aes)", Some(128));
    assert!(associations.add(sa, false, is_near).is_ok());

    let mut policies = Policies::default();
    let mut marked = policy(Direction::Out, 1, 0);
    marked.mark = Some(Mark { value: 1, mask: 1 });
    let mut beet = policy(Direction::Out, 1, 0);
    beet.templates[0].mode = Mode::Beet;
    let mut twice = policy(Direction::Out, 1, 0);
    twice.templates.push(twice.templates[0]);
    let mut of_a_device = policy(Direction::Out, 1, 0);
    of_a_device.selector.interface_index = 7;
    let mut of_errors = policy(Direction::Out, 1, 0);
    of_errors.flags |= gantry_abi_xfrm::constants::policy::ICMP;
    for policy in [marked, beet, twice, of_a_device.clone(), of_errors] {
        assert_eq!(policies.add(policy, false).unwrap_err().errno, libc::EOPNOTSUPP);
    }
    // strongSwan's bypass-lan lets packets of one device pass.
    of_a_device.templates.clear();
    assert!(policies.add(of_a_device, false).is_ok());
}

#[test]
fn a_policy_expires() {
    let mut policies = Policies::default();
    let mut limited = policy(Direction::Out, 1, 0);
    limited.limits = Limits { hard_use_seconds: 1, ..Limits::NONE };
    let limited = policies.add(limited, false).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    limited.usage.last_used.store(super::association::unix_seconds() + 1, Ordering::Relaxed);
    assert!(policies.remove_expired().is_empty(), "it was used just now");
    // The age of an unused policy counts from its addition.
    limited.usage.last_used.store(0, Ordering::Relaxed);
    assert_eq!((policies.remove_expired().len(), policies.all().count()), (1, 0));
}

#[test]
fn an_sa_without_udp_needs_a_raw_socket() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut raw = sa(FAR, 0x1001);
    raw.encapsulation = None;
    associations.sockets.has_raw = [false, true];
    let refusal = associations.add(raw.clone(), false, is_near).unwrap_err();
    assert!(refusal.text.contains("CAP_NET_RAW"), "{}", refusal.text);
    associations.sockets.has_raw = [true, false];
    associations.add(raw.clone(), false, is_near).unwrap();
    associations.add(sa(FAR, 0x1002), false, is_near).unwrap();
    let esp_packet = |spi| match &associations.get(&id(FAR, spi)).unwrap().active {
        Some(ActiveSa::Out(sa)) => {
            sa.path_mtu.store(1500, Ordering::Relaxed);
            (sa.max_esp_packet_bytes(), sa.endpoints().to)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!([esp_packet(0x1001), esp_packet(0x1002)], [(1480, (FAR, 0).into()), (1472, (FAR, 4500).into())]);
    // An update does not change the encapsulation.
    assert!(associations.add(sa(FAR, 0x1001), true, is_near).unwrap_err().text.contains("ports"));
}
