//! UPDSA changes the limits that threads read, and refuses every other change.

use super::*;

fn volume(associations: &Associations, id: &SaId) -> (Option<Reached>, bool) {
    let Some(End::Out(sa)) = &associations.get(id).unwrap().end else { panic!("it leaves") };
    (sa.volume.reached(sa.used.count(1, 1, 100)), sa.volume.is_over(&sa.used))
}

#[test]
fn limits_that_are_updated_are_those_that_count() {
    let mut associations = Associations::new(gantry()).unwrap();
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
    assert_eq!(update(packets(4, 8), 1), (Some(Reached::Soft), false));
    assert_eq!(update(packets(6, 8), 1), (None, false), "the soft limit is a later one");
    assert_eq!(update(packets(6, 8), 1), (Some(Reached::Soft), false), "the daemon is told once more");
    assert_eq!(update(bytes(700, 800), 1), (Some(Reached::Soft), false));
    assert_eq!(update(bytes(700, 800), 1), (Some(Reached::Hard), true));
    assert_eq!(update(Limits::NONE, 20), (None, false));
}

#[test]
fn a_limit_that_is_behind_what_an_sa_has_done_counts_at_once() {
    let mut associations = Associations::new(gantry()).unwrap();
    let first = sa(FAR, 0x1001);
    let mut update = |soft_packets, hard_packets| {
        let limits = Limits { soft_packets, hard_packets, ..Limits::NONE };
        associations.add(Sa { limits, ..first.clone() }, associations.get(&first.id).is_some(), is_near).unwrap();
        if soft_packets == 100 {
            (0..10).for_each(|_| _ = volume(&associations, &first.id));
        }
        associations.due(&first.id).map(|(_, reached)| reached)
    };
    assert_eq!((update(100, 200), update(11, 200)), (None, None));
    assert_eq!((update(10, 200), update(10, 200)), (Some(Reached::Soft), Some(Reached::Soft)));
    assert_eq!(update(5, 10), Some(Reached::Hard));
    assert!(associations.get(&first.id).is_none());
}

#[test]
fn time_goes_on_when_its_limits_are_updated() {
    let mut associations = Associations::new(gantry()).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    let added = associations.get(&first.id).unwrap().added;
    let limits = Limits { soft_add_seconds: 10, hard_add_seconds: 20, ..Limits::NONE };
    associations.add(Sa { limits, ..first.clone() }, true, is_near).unwrap();
    assert_eq!(associations.get(&first.id).unwrap().added, added);
    let mut after = |seconds| {
        let told = associations.age(added + Duration::from_secs(seconds));
        told.into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
    };
    assert_eq!((after(9), after(10)), (vec![], vec![Reached::Soft]));
    assert_eq!(after(20), [Reached::Hard]);
}

#[test]
fn an_sa_that_is_added_again_goes_on_with_what_it_has_done() {
    let mut associations = Associations::new(gantry()).unwrap();
    let mut moved = sa(FAR, 0x1001);
    let now = seconds();
    moved.limits = Limits { hard_packets: 10, hard_add_seconds: 100, ..Limits::NONE };
    moved.counters = gantry_abi_xfrm::Counters { bytes: 700, packets: 8, add_time: now - 95, use_time: now - 90 };
    associations.add(moved.clone(), false, is_near).unwrap();
    assert_eq!(associations.get(&moved.id).unwrap().snapshot().counters, moved.counters);
    assert_eq!((volume(&associations, &moved.id), volume(&associations, &moved.id)), {
        ((None, false), (Some(Reached::Hard), true))
    });
    let late = associations.age(Instant::now() + Duration::from_secs(6));
    assert_eq!(late.into_iter().map(|(_, reached)| reached).collect::<Vec<_>>(), [Reached::Hard]);
}

#[test]
fn an_update_that_cannot_be_is_refused_with_a_sentence() {
    let mut associations = Associations::new(gantry()).unwrap();
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
    refused("ports", &|sa| sa.encapsulation.as_mut().unwrap().source_port = 9);
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
    refused("tunnel mode", &|sa| sa.mode = Mode::Transport);
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
fn a_daemon_that_is_told_late_learns_of_both_limits() {
    let mut associations = Associations::new(gantry()).unwrap();
    let limits = Limits { soft_packets: 3, hard_packets: 6, ..Limits::NONE };
    let first = Sa { limits, ..sa(FAR, 0x1001) };
    associations.add(first.clone(), false, is_near).unwrap();
    let serial = associations.get(&first.id).unwrap().serial;
    let seen: Vec<_> = (0..6).filter_map(|_| volume(&associations, &first.id).0).collect();
    assert_eq!(seen, [Reached::Soft, Reached::Hard]);
    let mut told = Vec::new();
    for reached in seen {
        told.extend(associations.reached(&first.id, serial, reached).into_iter().map(|(_, reached)| reached));
    }
    assert_eq!(told, [Reached::Soft, Reached::Hard]);
}

#[test]
fn a_limit_counts_without_an_event_too() {
    let mut associations = Associations::new(gantry()).unwrap();
    let limits = Limits { soft_packets: 3, hard_packets: 6, ..Limits::NONE };
    let first = Sa { limits, ..sa(FAR, 0x1001) };
    associations.add(first.clone(), false, is_near).unwrap();
    let mut after = |packets| {
        (0..packets).for_each(|_| _ = volume(&associations, &first.id));
        associations.age(Instant::now()).into_iter().map(|(_, reached)| reached).collect::<Vec<_>>()
    };
    assert_eq!((after(2), after(1), after(0), after(3)), (vec![], vec![Reached::Soft], vec![], vec![Reached::Hard]));
}
