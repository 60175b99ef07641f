//! No sequence number is used twice under one key, and no packet is accepted twice, even if the SA is deleted and
//! added again.

use gantry_protocols::{Packet, PacketError};

use super::*;

/// Builds an IP packet with room for ESP around it.
fn packet(buffer: &mut [u8; 128]) -> Packet<'_> {
    buffer[48..68].copy_from_slice(&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 1, 9, 10, 1, 2, 9]);
    Packet::new(buffer, 48..68)
}

/// Seals a packet. Returns the ESP packet.
fn sealed(sa: &OutgoingSa) -> Result<Vec<u8>, PacketError> {
    let mut buffer = [0; 128];
    let mut packet = packet(&mut buffer);
    sa.esp.seal(&mut packet)?;
    Ok(packet.data().to_vec())
}

/// Seals a packet. Returns its sequence number.
fn number(sa: &OutgoingSa) -> Result<u32, PacketError> {
    sealed(sa).map(|packet| u32::from_be_bytes(*packet[4..].first_chunk().unwrap()))
}

fn opened(sa: &IncomingSa, packet: &[u8]) -> Result<(), PacketError> {
    let mut buffer = packet.to_vec();
    let length = buffer.len();
    sa.esp.open(&mut Packet::new(&mut buffer, 0..length))
}

fn out(associations: &Associations, id: &SaId) -> Arc<OutgoingSa> {
    let Some(ActiveSa::Out(sa)) = associations.get(id).unwrap().active.clone() else {
        panic!("the SA is not outgoing")
    };
    sa
}

fn arriving(associations: &Associations, id: &SaId) -> Arc<IncomingSa> {
    let Some(ActiveSa::In(sa)) = associations.get(id).unwrap().active.clone() else { panic!("the SA is not incoming") };
    sa
}

/// Returns the same SA with the sequence numbers that a daemon has read.
fn again(sa: &Sa, replay: Option<Replay>) -> Sa {
    Sa { replay, ..sa.clone() }
}

#[test]
fn an_sa_added_again_continues_after_the_last_used_number() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let (first, name) = (sa(FAR, 0x1001), id(FAR, 0x1001));
    associations.add(first.clone(), false, is_near).unwrap();
    let in_flight = out(&associations, &name);
    assert_eq!((number(&in_flight), number(&in_flight)), (Ok(1), Ok(2)));
    let read = associations.get(&name).unwrap().snapshot().replay;
    assert_eq!((number(&in_flight), number(&in_flight)), (Ok(3), Ok(4)));
    associations.remove(&name).unwrap();
    assert_eq!(number(&in_flight), Err(PacketError::Exhausted));
    associations.add(again(&first, read), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &name)), Ok(5));
    // Static keys are added without sequence numbers.
    associations.remove(&name).unwrap();
    associations.add(first.clone(), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &name)), Ok(6));
    // The daemon knows higher sequence numbers if the SA was elsewhere.
    associations.remove(&name).unwrap();
    associations.add(again(&first, Some(Replay { output: 100, input: 0, bitmap: 0 })), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &name)), Ok(101));
    // Other keys begin with their first sequence number.
    associations.add(sa(FAR, 0x1002), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &id(FAR, 0x1002))), Ok(1));
}

#[test]
fn a_removed_sa_assigns_no_more_numbers() {
    let ends: [&dyn Fn(&mut Associations); 3] = [
        &|associations| drop(associations.remove(&id(FAR, 0x1001))),
        &|associations| reach(associations, 0x1001, LimitKind::Hard),
        &|associations| drop(associations.enforce_all_limits(Instant::now() + Duration::from_secs(11))),
    ];
    for end in ends {
        let mut associations = Associations::new(gantry(), 4500).unwrap();
        let limited = Sa { limits: Limits { hard_add_seconds: 10, ..Limits::NONE }, ..sa(FAR, 0x1001) };
        associations.add(limited.clone(), false, is_near).unwrap();
        let in_flight = out(&associations, &limited.id);
        assert_eq!(number(&in_flight), Ok(1));
        end(&mut associations);
        assert!(associations.get(&limited.id).is_none());
        assert_eq!(number(&in_flight), Err(PacketError::Exhausted));
        associations.add(limited.clone(), false, is_near).unwrap();
        assert_eq!(number(&out(&associations, &limited.id)), Ok(2));
    }
}

#[test]
fn numbers_of_a_key_continue_if_the_peer_moves() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &first.id)), Ok(1));
    associations.remove(&first.id).unwrap();
    let mut moved = first.clone();
    moved.id.destination = [10, 0, 0, 77].into();
    associations.add(moved.clone(), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &moved.id)), Ok(2));
}

#[test]
fn extended_numbers_continue_if_an_sa_is_added_again() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let mut first = sa(FAR, 0x1001);
    first.flags |= state::ESN;
    first.replay_esn = Some(ReplayEsn { output: (1 << 32) - 1, input: 0, window: 64, bitmap: vec![0; 2] });
    associations.add(first.clone(), false, is_near).unwrap();
    assert_eq!(number(&out(&associations, &first.id)), Ok(0));
    associations.remove(&first.id).unwrap();
    associations.add(first.clone(), false, is_near).unwrap();
    assert_eq!(associations.get(&first.id).unwrap().snapshot().replay_esn.unwrap().output, 1 << 32);
}

#[test]
fn replays_are_refused_if_an_sa_is_added_again() {
    let (mut associations, mut peer) =
        (Associations::new(gantry(), 4500).unwrap(), Associations::new(gantry(), 4500).unwrap());
    let first = sa(NEAR, 0x1001);
    peer.add(first.clone(), false, |_| false).unwrap();
    associations.add(first.clone(), false, is_near).unwrap();
    let (sender, in_flight) = (out(&peer, &first.id), arriving(&associations, &first.id));
    let packets: Vec<_> = (0..5).map(|_| sealed(&sender).unwrap()).collect();
    assert_eq!(opened(&in_flight, &packets[0]), Ok(()));
    let read = associations.get(&first.id).unwrap().snapshot().replay;
    assert_eq!(opened(&in_flight, &packets[1]), Ok(()));
    associations.remove(&first.id).unwrap();
    assert_eq!(opened(&in_flight, &packets[2]), Err(PacketError::Replayed), "the other SA would not know of it");
    // Neither the daemon's numbers nor the address matter.
    for (replay, at) in [(read, NEAR), (None, NEAR), (read, [10, 0, 0, 9].into())] {
        let mut second = again(&first, replay);
        second.id.destination = at;
        associations.add(second.clone(), false, |_| true).unwrap();
        let now = arriving(&associations, &second.id);
        for old in &packets[..2] {
            assert_eq!(opened(&now, old), Err(PacketError::Replayed));
        }
        associations.remove(&second.id).unwrap();
    }
    associations.add(first.clone(), false, is_near).unwrap();
    assert_eq!(opened(&arriving(&associations, &first.id), &packets[3]), Ok(()));
}

#[test]
fn two_sas_do_not_send_under_one_key() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    let mut elsewhere = first.clone();
    elsewhere.id.destination = [10, 0, 0, 77].into();
    let mut other_name = first.clone();
    other_name.id.spi = 0x1002;
    for second in [&elsewhere, &other_name] {
        let refusal = associations.add(second.clone(), false, is_near).unwrap_err();
        assert_eq!((refusal.errno, refusal.text.contains("under this key")), (libc::EEXIST, true));
    }
    // The other direction has sequence numbers of its own.
    associations.add(Sa { aead: first.aead.clone(), ..sa(NEAR, 0x1003) }, false, is_near).unwrap();
    associations.remove(&first.id).unwrap();
    associations.add(elsewhere, false, is_near).unwrap();
}

#[test]
fn reports_about_a_removed_sa_do_not_affect_its_successor() {
    let mut associations = Associations::new(gantry(), 4500).unwrap();
    let first = sa(FAR, 0x1001);
    associations.add(first.clone(), false, is_near).unwrap();
    let serial = associations.get(&first.id).unwrap().serial;
    associations.remove(&first.id).unwrap();
    let limits = Limits { hard_packets: 0, ..Limits::NONE };
    associations.add(Sa { limits, ..first.clone() }, false, is_near).unwrap();
    assert!(associations.handle_limit_report(&first.id, serial, LimitKind::Hard).is_empty());
    assert!(associations.get(&first.id).is_some());
}
