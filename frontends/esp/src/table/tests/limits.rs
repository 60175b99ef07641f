//! Limits of SAs, and UPDSA. UPDSA changes the limits of an SA and the UDP port of its peer, while other threads use the SA. Every other
//! change is refused.

use super::*;

/// Counts a packet of 100 bytes. Returns the volume limit to be reported, and whether the SA must not process further packets.
fn volume(associations: &Associations, id: &SaId) -> (Option<LimitKind>, bool) {
    let Some(ActiveSa::Out(sa)) = &associations.get(id).unwrap().active else { panic!("the SA is not outgoing") };
    (sa.volume_limits.take_reached(sa.usage.count(1, 1, 100)), sa.volume_limits.are_exceeded_by(&sa.usage))
}

#[test]
fn updated_limits_take_effect() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    let mut update = |limits, times| {
        associations.add(Sa { limits, ..first.clone() }, true, is_near).unwrap();
        (1..times).for_each(|_| _ = volume(&associations, &first.id));
        volume(&associations, &first.id)
    };
    let packets = |soft_packets, hard_packets| Limits { soft_packets, hard_packets, ..Limits::NONE };
    let bytes = |soft_bytes, hard_bytes| Limits { soft_bytes, hard_bytes, ..Limits::NONE };
    assert_eq!(update(packets(4, 8), 3), (None, false));
    assert_eq!(update(packets(4, 8), 1), (Some(LimitKind::Soft), false));
    assert_eq!(update(packets(6, 8), 1), (None, false), "the soft limit was raised");
    assert_eq!(update(packets(6, 8), 1), (Some(LimitKind::Soft), false), "the daemon is notified once more");
    assert_eq!(update(bytes(700, 800), 1), (Some(LimitKind::Soft), false));
    assert_eq!(update(bytes(700, 800), 1), (Some(LimitKind::Hard), true));
    assert_eq!(update(Limits::NONE, 20), (None, false));
}

#[test]
fn a_limit_below_the_current_volume_takes_effect_at_once() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    let mut update = |soft_packets, hard_packets| {
        let limits = Limits { soft_packets, hard_packets, ..Limits::NONE };
        associations.add(Sa { limits, ..first.clone() }, associations.get(&first.id).is_some(), is_near).unwrap();
        // The first call counts ten packets.
        if soft_packets == 100 {
            (0..10).for_each(|_| _ = volume(&associations, &first.id));
        }
        associations.enforce_limits(&first.id).map(|(_, reached)| reached)
    };
    assert_eq!((update(100, 200), update(11, 200)), (None, None));
    assert_eq!((update(10, 200), update(10, 200)), (Some(LimitKind::Soft), Some(LimitKind::Soft)));
    assert_eq!(update(5, 10), Some(LimitKind::Hard));
    assert!(associations.get(&first.id).is_none());
}

#[test]
fn an_update_of_limits_keeps_the_age() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    let added = associations.get(&first.id).unwrap().added;
    let limits = Limits { soft_add_seconds: 10, hard_add_seconds: 20, ..Limits::NONE };
    associations.add(Sa { limits, ..first.clone() }, true, is_near).unwrap();
    assert_eq!(associations.get(&first.id).unwrap().added, added);
    let mut after = |seconds| {
        let expirations = associations.enforce_all_limits(added + Duration::from_secs(seconds));
        expirations.into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
    };
    assert_eq!((after(9), after(10)), (vec![], vec![LimitKind::Soft]));
    assert_eq!(after(20), [LimitKind::Hard]);
}

#[test]
fn an_sa_added_again_continues_its_counters() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut moved = sa(FAR, 0x1001);
    let now = unix_seconds();
    moved.limits = Limits { hard_packets: 10, hard_add_seconds: 100, ..Limits::NONE };
    moved.counters = gantry_abi_xfrm::Counters { bytes: 700, packets: 8, add_time: now - 95, use_time: now - 90 };
    associations.add(moved.clone(), false, is_near).unwrap();
    assert_eq!(associations.get(&moved.id).unwrap().snapshot().counters, moved.counters);
    assert_eq!((volume(&associations, &moved.id), volume(&associations, &moved.id)), {
        ((None, false), (Some(LimitKind::Hard), true))
    });
    let late = associations.enforce_all_limits(Instant::now() + Duration::from_secs(6));
    assert_eq!(late.into_iter().map(|(_, reached)| reached).collect::<Vec<_>>(), [LimitKind::Hard]);
}

#[test]
fn an_impossible_update_is_refused_with_a_text() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut first = sa(NEAR, 0x1001);
    first.replay = Some(Replay { output: 0, input: 7, bitmap: 0 });
    associations.add(first.clone(), false, is_near).unwrap();
    let mut refused = |what: &str, change: &dyn Fn(&mut Sa)| {
        let mut update = first.clone();
        change(&mut update);
        let refusal = associations.add(update, true, is_near).unwrap_err();
        assert_eq!(refusal.errno, libc::EOPNOTSUPP, "{what}");
        assert!(refusal.text.contains(what), "{what}: {}", refusal.text);
    };
    refused("ports", &|sa| sa.encapsulation.as_mut().unwrap().destination_port = 9);
    refused("ports", &|sa| sa.encapsulation.as_mut().unwrap().original = [10, 0, 0, 77].into());
    refused("ports", &|sa| sa.encapsulation = None);
    refused("keys", &|sa| sa.aead.as_mut().unwrap().key = Key::new(&[0xEE; 36]));
    refused("keys", &|sa| sa.aead.as_mut().unwrap().icv_bits = 96);
    refused("window", &|sa| sa.replay_window = 0);
    refused("window", &|sa| {
        sa.replay_esn = Some(ReplayEsn { window: 128, bitmap: vec![0; 4], ..ReplayEsn::default() });
    });
    refused("numbers", &|sa| sa.replay = Some(Replay { output: 0, input: 8, bitmap: 0 }));
    refused("source", &|sa| sa.source = [10, 0, 0, 77].into());
    refused("reqid", &|sa| sa.reqid = 8);
    refused("flags", &|sa| sa.flags |= state::NOECN);
    refused("flags", &|sa| sa.extra_flags |= extra::DONT_ENCAP_DSCP);
    refused("padding", &|sa| sa.tfc_padding = 1000);
    refused("mode of an SA", &|sa| sa.mode = Mode::Transport);
    refused("tunnel mode", &|sa| sa.mode = Mode::Beet);
    refused("marks", &|sa| sa.mark = Some(Mark { value: 1, mask: 1 }));
    refused("direction", &|sa| sa.direction = Some(2));
    // A program may send back an SA that it has read.
    let read = associations.get(&first.id).unwrap().snapshot();
    associations.add(read, true, is_near).unwrap();
    let behind = Sa { replay: Some(Replay { output: 0, input: 3, bitmap: 0 }), ..first.clone() };
    associations.add(behind, true, is_near).unwrap();
    let replay = associations.get(&first.id).unwrap().snapshot().replay.unwrap();
    assert_eq!(replay.input, 7, "numbers do not go back");
}

#[test]
fn an_update_changes_the_port_of_the_peer() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let port = |encapsulation: &mut Encapsulation, to| {
        *(if to == FAR { &mut encapsulation.destination_port } else { &mut encapsulation.source_port }) = 1024;
    };
    for to in [FAR, NEAR] {
        let mut sa = sa(to, 0x1001);
        associations.add(sa.clone(), false, is_near).unwrap();
        let active = associations.get(&sa.id).unwrap().active.clone().unwrap();
        let peer = || match &active {
            ActiveSa::Out(sa) => sa.endpoints().to,
            ActiveSa::In(sa) => sa.peer(),
        };
        assert_eq!(peer(), (FAR, 4500).into());
        let moved = |moved| match &active {
            ActiveSa::Out(_) => false,
            ActiveSa::In(sa) => sa.move_notified.swap(moved, Ordering::Relaxed),
        };
        moved(true);
        port(sa.encapsulation.as_mut().unwrap(), to);
        associations.add(sa.clone(), true, is_near).unwrap();
        assert_eq!((peer(), moved(false)), ((FAR, 1024).into(), false), "the next move is reported again");
        assert_eq!(associations.get(&sa.id).unwrap().snapshot().encapsulation, sa.encapsulation);
    }
}

#[test]
fn a_late_report_notifies_of_both_limits() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let limits = Limits { soft_packets: 3, hard_packets: 6, ..Limits::NONE };
    let first = Sa { limits, ..sa(FAR, 0x1001) };
    associations.add(first.clone(), false, is_near).unwrap();
    let serial = associations.get(&first.id).unwrap().serial;
    let seen: Vec<_> = (0..6).filter_map(|_| volume(&associations, &first.id).0).collect();
    assert_eq!(seen, [LimitKind::Soft, LimitKind::Hard]);
    let mut expirations = Vec::new();
    for reached in seen {
        expirations.extend(
            associations.handle_limit_report(&first.id, serial, reached).into_iter().map(|(_, reached)| reached),
        );
    }
    assert_eq!(expirations, [LimitKind::Soft, LimitKind::Hard]);
}

#[test]
fn a_limit_takes_effect_without_an_event() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let limits = Limits { soft_packets: 3, hard_packets: 6, ..Limits::NONE };
    let first = Sa { limits, ..sa(FAR, 0x1001) };
    associations.add(first.clone(), false, is_near).unwrap();
    let mut after = |packets| {
        (0..packets).for_each(|_| _ = volume(&associations, &first.id));
        associations.enforce_all_limits(Instant::now()).into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
    };
    assert_eq!(
        (after(2), after(1), after(0), after(3)),
        (vec![], vec![LimitKind::Soft], vec![], vec![LimitKind::Hard])
    );
}
