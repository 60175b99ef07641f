use std::ptr;

use gantry::{Algorithm, Gantry, sample_text};

use super::*;
use crate::keys::Transform;

fn gantry() -> Gantry {
    gantry_runtime::open(gantry_runtime::Config::default()).unwrap()
}

fn keys(gantry: &Gantry, transforms: &[(Algorithm, &[u8], usize, usize, bool)]) -> Keys {
    let transforms: Vec<Transform<'_>> = transforms
        .iter()
        .map(|(algorithm, key, iv, tag, backward)| Transform {
            algorithm: *algorithm,
            key,
            iv: *iv,
            tag: *tag,
            backward: *backward,
        })
        .collect();
    Keys::new(gantry, &transforms).unwrap()
}

const KEY: &[u8] = &[1; 16];
const MAC_KEY: &[u8] = &[2; 32];
const IV: [u8; 16] = [3; 16];

/// Data, a tag, and the operation on them, in place.
struct Packet {
    data: Vec<u8>,
    tag: [u8; 16],
}

impl Packet {
    fn new() -> Self {
        Self { data: sample_text(256), tag: [0; 16] }
    }

    /// A MAC covers what a cipher writes.
    fn op(&mut self, keys: &Keys) -> Op {
        let (data, length) = (self.data.as_mut_ptr(), self.data.len() as u32);
        Op {
            keys,
            iv: IV.as_ptr(),
            auth_iv: ptr::null(),
            aad: ptr::null(),
            input: data,
            output: data,
            auth: data,
            tag: self.tag.as_mut_ptr(),
            length,
            auth_length: length,
            aad_length: 0,
            joint: 0,
            status: Status::Error,
            after: 0,
            spare: 0,
        }
    }
}

/// Runs packets, each with keys of its own, and returns how they ended.
fn run(packets: &mut [Packet], keys: &[&Keys]) -> Vec<Status> {
    let mut ops: Vec<Op> = packets.iter_mut().zip(keys).map(|(packet, keys)| packet.op(keys)).collect();
    // SAFETY: each packet lives as long as the call, and is in one operation.
    unsafe { Batch::default().run(&mut ops) };
    ops.iter().map(|op| op.status).collect()
}

#[test]
fn operations_of_several_sessions_end_as_each_of_them_alone() {
    let gantry = gantry();
    let cbc = keys(&gantry, &[(Algorithm::Aes128Cbc, KEY, 16, 0, false)]);
    let gcm = keys(&gantry, &[(Algorithm::Aes128Gcm, KEY, 16, 16, false)]);
    let chain = [(Algorithm::Aes128Cbc, KEY, 16, 0, false), (Algorithm::HmacSha256, MAC_KEY, 0, 16, false)];
    let chain = keys(&gantry, &chain);
    let all = [&chain, &cbc, &gcm, &cbc, &chain, &gcm, &gcm];
    let mut together: Vec<Packet> = all.iter().map(|_| Packet::new()).collect();
    assert_eq!(run(&mut together, &all), [Status::Done; 7]);
    for (packet, keys) in together.iter().zip(all) {
        let mut alone = [Packet::new()];
        assert_eq!(run(&mut alone, &[keys]), [Status::Done]);
        assert_eq!((&packet.data, packet.tag), (&alone[0].data, alone[0].tag));
        assert_ne!(packet.data, Packet::new().data);
    }
}

#[test]
fn a_bad_tag_leaves_no_plaintext_in_either_order() {
    let gantry = gantry();
    let cipher = |backward| (Algorithm::Aes128Cbc, KEY, 16, 0, backward);
    let mac = |backward| (Algorithm::HmacSha256, MAC_KEY, 0, 16, backward);
    for (forwards, backwards) in [
        ([cipher(false), mac(false)], [mac(true), cipher(true)]),
        ([mac(false), cipher(false)], [cipher(true), mac(true)]),
    ] {
        let (forwards, backwards) = (keys(&gantry, &forwards), keys(&gantry, &backwards));
        let mut packets = [Packet::new(), Packet::new()];
        assert_eq!(run(&mut packets, &[&forwards; 2]), [Status::Done; 2]);
        let sealed = packets[1].data.clone();
        packets[1].tag[15] ^= 1;
        assert_eq!(run(&mut packets, &[&backwards; 2]), [Status::Done, Status::BadTag]);
        assert_eq!(packets[0].data, Packet::new().data);
        assert!(packets[1].data == sealed || packets[1].data.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_part_of_a_block_is_a_wrong_argument_and_spoils_no_other_operation() {
    let gantry = gantry();
    let cbc = keys(&gantry, &[(Algorithm::Aes128Cbc, KEY, 16, 0, false)]);
    let mut packets = [Packet::new(), Packet::new()];
    packets[0].data.truncate(100);
    assert_eq!(run(&mut packets, &[&cbc; 2]), [Status::BadArguments, Status::Done]);
    assert_eq!(packets[0].data, Packet::new().data[..100]);
}

#[test]
fn transforms_that_no_device_can_serve_are_refused() {
    use crate::keys::Refused;
    let gantry = gantry();
    let refused =
        |algorithm, key, iv, tag| Keys::new(&gantry, &[Transform { algorithm, key, iv, tag, backward: false }]).err();
    assert_eq!(refused(Algorithm::Aes128Cbc, &KEY[1..], 16, 0), Some(Refused::Wrong));
    assert_eq!(refused(Algorithm::Aes128Cbc, KEY, 12, 0), Some(Refused::Wrong));
    assert_eq!(refused(Algorithm::HmacSha256, MAC_KEY, 0, 33), Some(Refused::Wrong));
    assert_eq!(refused(Algorithm::Null, &[], 0, 0), Some(Refused::Unsupported), "off by default");
    assert_eq!(refused(Algorithm::Ed25519, MAC_KEY, 0, 64), Some(Refused::Unsupported));
}
