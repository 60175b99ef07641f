//! SAs of transport mode serve templates of transport mode, whose addresses are those of the packet.

use super::*;

pub(crate) fn transport_sa(to: IpAddr, spi: u32) -> Sa {
    Sa { mode: Mode::Transport, ..sa(to, spi) }
}

/// Builds a policy between the two ends, with a template without addresses, as charon has it.
pub(crate) fn transport_policy(direction: Direction) -> Policy {
    let one = |address| Prefix { address, length: 32 };
    let mut policy = policy(direction, 100, 0);
    let (source, destination) = if direction == Direction::Out { (NEAR, FAR) } else { (FAR, NEAR) };
    (policy.selector.source, policy.selector.destination) = (one(source), one(destination));
    let template = &mut policy.templates[0];
    template.mode = Mode::Transport;
    (template.source, template.id.destination) = ([0; 4].into(), [0; 4].into());
    policy
}

pub(crate) fn between(source: IpAddr, destination: IpAddr) -> Flow {
    Flow { source, destination, protocol: 17, source_port: 1701, destination_port: 1701 }
}

/// Returns the SPI of the SA for a packet to the far end.
fn leaves_by(associations: &Associations) -> Option<u32> {
    match associations.view.read().outgoing_rule(&between(NEAR, FAR))?.verdict {
        Verdict::Protect(sa) => sa.map(|sa| sa.id.spi),
        Verdict::Block => None,
    }
}

#[test]
fn an_outgoing_packet_takes_the_sa_between_its_addresses() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    install(&associations, &mut policies, transport_policy(Direction::Out));
    associations.add(sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), None, "an SA of tunnel mode");
    let mut other = transport_sa(FAR, 0x1002);
    other.source = [10, 0, 0, 9].into();
    associations.add(other, false, is_near).unwrap();
    let mut other = transport_sa([10, 0, 0, 8].into(), 0x1003);
    other.source = NEAR;
    associations.add(other, false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), None, "SAs between other addresses");
    associations.add(transport_sa(FAR, 0x1004), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), Some(0x1004));
    associations.remove(&id(FAR, 0x1004)).unwrap();
    assert_eq!(leaves_by(&associations), None);
}

#[test]
fn a_template_with_an_spi_takes_that_sa_of_its_mode() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    let mut named = transport_policy(Direction::Out);
    named.templates[0].id.spi = 0x1001;
    install(&associations, &mut policies, named);
    associations.add(sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), None, "an SA of tunnel mode");
    associations.remove(&id(FAR, 0x1001)).unwrap();
    let mut other = transport_sa(FAR, 0x1001);
    other.source = [10, 0, 0, 9].into();
    associations.add(other, false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), None, "an SA from another address");
    associations.remove(&id(FAR, 0x1001)).unwrap();
    associations.add(transport_sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(leaves_by(&associations), Some(0x1001));
}

#[test]
fn a_tunnel_takes_no_sa_of_transport_mode() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    install(&associations, &mut policies, policy(Direction::Out, 100, 0));
    associations.add(transport_sa(FAR, 0x1001), false, is_near).unwrap();
    assert_eq!(super::leaves_by(&associations), None);
    associations.add(sa(FAR, 0x1002), false, is_near).unwrap();
    assert_eq!(super::leaves_by(&associations), Some(0x1002));
}

#[test]
fn an_incoming_packet_needs_a_policy_of_its_mode() {
    let (mut associations, mut policies) = (Associations::new(gantry(), 4500).unwrap(), Policies::default());
    associations.add(transport_sa(NEAR, 0x2001), false, is_near).unwrap();
    associations.add(sa(NEAR, 0x2002), false, is_near).unwrap();
    let local = LocalAddresses::new([(NEAR, 32)].into_iter());
    associations.view.change(|view| view.local_addresses = local);
    let admits = |associations: &Associations, spi, flow: &Flow| {
        let view = associations.view.read();
        view.admitting_policy(flow, &view.incoming[&spi]).is_some()
    };
    let flow = between(FAR, NEAR);
    assert!(!admits(&associations, 0x2001, &flow), "nothing without a policy");
    let added = install(&associations, &mut policies, transport_policy(Direction::In));
    assert!(admits(&associations, 0x2001, &flow) && !admits(&associations, 0x2002, &flow));
    assert!(!admits(&associations, 0x2001, &between([10, 0, 0, 9].into(), NEAR)), "from another host");
    associations.view.change(|view| view.replace_policy(Some(&added), None));
    let mut tunnel = transport_policy(Direction::In);
    tunnel.templates = policy(Direction::In, 100, 0).templates;
    let tunnel = policies.add(tunnel, true).unwrap();
    associations.view.change(|view| view.replace_policy(None, Some(&tunnel)));
    assert!(!admits(&associations, 0x2001, &flow) && admits(&associations, 0x2002, &flow));
}

#[test]
fn selectors_of_an_sa_may_name_its_addresses_once_more() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut add = |mode, change: &dyn Fn(&mut Selector)| {
        let mut named = Sa { mode, ..sa(FAR, 0x1001) };
        let one = |address| Prefix { address, length: 32 };
        (named.selector.source, named.selector.destination) = (one(NEAR), one(FAR));
        change(&mut named.selector);
        let added = associations.add(named, false, is_near).map_err(|refusal| refusal.errno);
        associations.remove(&id(FAR, 0x1001));
        added
    };
    assert_eq!(add(Mode::Transport, &|_| ()), Ok(()), "charon names them");
    let network = Prefix { address: [10, 0, 0, 0].into(), length: 8 };
    assert_eq!(add(Mode::Transport, &|selector| selector.source = network), Ok(()));
    let refused = Err(libc::EOPNOTSUPP);
    assert_eq!(add(Mode::Tunnel, &|_| ()), refused);
    assert_eq!(add(Mode::Transport, &|selector| selector.destination.address = [10, 0, 0, 3].into()), refused);
    assert_eq!(add(Mode::Transport, &|selector| selector.protocol = 17), refused);
    assert_eq!(add(Mode::Transport, &|selector| selector.interface_index = 3), refused);
    let port = Port { value: 1701, mask: 0xFFFF };
    assert_eq!(add(Mode::Transport, &|selector| selector.destination_port = port), refused);
}

#[test]
fn an_sa_needs_both_addresses() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut open = transport_sa(NEAR, 0x1001);
    open.source = [0; 4].into();
    assert_eq!(associations.add(open, false, is_near).unwrap_err().errno, libc::EOPNOTSUPP);
}

#[test]
fn tunnels_alone_pad_packets_up_to_the_path_mtu() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut padded = |spi, tfc_padding, bytes: usize| {
        associations.add(Sa { tfc_padding, ..sa(FAR, spi) }, false, is_near).unwrap();
        let Some(ActiveSa::Out(sa)) = &associations.get(&id(FAR, spi)).unwrap().active else { panic!("{spi}") };
        sa.path_mtu.store(1500, Ordering::Relaxed);
        sa.padded_length(bytes)
    };
    assert_eq!([padded(0x1001, 1000, 60), padded(0x1002, 1000, 1100), padded(0x1003, 0, 60)], [1000, 1100, 60]);
    // Charon asks for the most padding with `tfc_padding = mtu`.
    assert_eq!([padded(0x1004, u32::MAX, 60), padded(0x1005, u32::MAX, 1500)], [1438, 1500]);
    let refusal = associations.add(Sa { tfc_padding: 9, ..transport_sa(FAR, 0x1006) }, false, is_near).unwrap_err();
    assert_eq!(refusal.errno, libc::EINVAL);
}

#[test]
fn a_path_carries_the_ip_header_once() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut most = |sa: Sa| {
        let spi = sa.id.spi;
        associations.add(sa, false, is_near).unwrap();
        let Some(ActiveSa::Out(sa)) = &associations.get(&id(FAR, spi)).unwrap().active else { panic!("{spi}") };
        sa.path_mtu.store(1500, Ordering::Relaxed);
        sa.max_inner_packet_bytes()
    };
    // The IP header takes 20 of 1,500 bytes, UDP 8, the headers of ESP 16, its trailer 2, and the integrity check value 16.
    assert_eq!([most(sa(FAR, 0x1001)), most(transport_sa(FAR, 0x1002))], [1438, 1458]);
}

#[test]
fn a_second_peer_behind_a_nat_is_refused_with_the_same_reqid() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let from_port = |spi, port, reqid| {
        let mut sa = transport_sa(FAR, spi);
        sa.reqid = reqid;
        sa.encapsulation.as_mut().unwrap().destination_port = port;
        sa
    };
    associations.add(from_port(0x1001, 40001, 1), false, is_near).unwrap();
    let refused = associations.add(from_port(0x1002, 40002, 1), false, is_near).unwrap_err();
    assert_eq!(refused.errno, libc::EEXIST);
    assert!(refused.text.contains("another peer"), "{refused:?}");
    // A new SA of the same peer is accepted, and so is an SA with another reqid.
    associations.add(from_port(0x1003, 40001, 1), false, is_near).unwrap();
    associations.add(from_port(0x1004, 40002, 2), false, is_near).unwrap();
    associations.remove(&id(FAR, 0x1001)).unwrap();
    associations.remove(&id(FAR, 0x1003)).unwrap();
    associations.add(from_port(0x1005, 40002, 1), false, is_near).unwrap();
}
