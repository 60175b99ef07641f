//! Checks that the position of a wrong byte in a tag affects no branch. Run by `scripts/constant-time`, in valgrind.

#![cfg(target_arch = "x86_64")]

#[path = "../../lanes/src/constant_time/memcheck.rs"]
mod memcheck;

use gantry_core::{Algorithm, Gantry, Kind, Operation, SessionParams, tags_equal};
use gantry_driver_software::SoftwareDriver;
use memcheck::{count_decisions, is_secret, mark_public, mark_secret, self_test};

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn detects_a_branch_on_a_secret() {
    self_test();
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn comparing_tags_does_not_branch_on_secrets() {
    for length in [0, 1, 12, 16, 20, 32, 64] {
        let (mut one, mut other) = (bytes(length, 1), bytes(length, 2));
        mark_secret(&mut one);
        mark_secret(&mut other);
        let mut equal = [0];
        assert_eq!(count_decisions(|| equal[0] = u8::from(tags_equal(&one, &other))), 0, "{length} bytes");
        assert!(length == 0 || is_secret(&equal));
    }
}

/// Treats only SK.seed as secret: SK.prf decides the keys that sign, and a signature reveals these.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn signing_with_slh_dsa_does_not_branch_on_the_secret_seed() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let device = &gantry.devices()[0];
    for algorithm in [Algorithm::SlhDsaSha2_128f, Algorithm::SlhDsaSha2_192f, Algorithm::SlhDsaShake128f] {
        device.admit(algorithm).unwrap();
        let mut key = bytes(algorithm.info().key.max, 3);
        let seed = key.len() / 4;
        mark_secret(&mut key[..seed]);
        let params = SessionParams::new(algorithm, &key).with_direction(Operation::Sign).deterministic();
        let mut signature = vec![0; params.tag_len()];
        let branches = count_decisions(|| gantry.session(params).unwrap().sign(b"a message", &mut signature).unwrap());
        assert_eq!(branches, 0, "{algorithm}");
        // Everything but the randomizer at its beginning.
        assert!(is_secret(&signature[seed..]), "{algorithm}");
    }
}

/// With secret keys, a device must compare the whole tag and branch once. A comparison byte by byte would branch once for each byte.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn the_position_of_a_wrong_byte_in_a_tag_affects_no_branch() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let device = &gantry.devices()[0];
    let mut tested = 0;
    for algorithm in device.capabilities().iter().map(|c| c.algorithm).filter(|a| a.kind() == Kind::Aead) {
        let info = algorithm.info();
        device.admit(algorithm).unwrap();
        let (mut key, mut mac_key) = (bytes(info.key.min, 3), bytes(info.mac_key.min.max(20), 4));
        mark_secret(&mut key);
        mark_secret(&mut mac_key);
        let params = SessionParams::new(algorithm, &key);
        let params = if info.cipher.is_some() { params.with_mac_key(&mac_key) } else { params };
        let session = gantry.session(params).unwrap();
        let (iv, aad) = (bytes(info.iv.min, 5), bytes(20, 6));
        let (mut data, mut tag) = (bytes(64, 7), vec![0; session.params().tag_len()]);
        session.seal(&iv, &aad, &mut data, &mut tag).unwrap();
        assert!(is_secret(&tag), "{algorithm}");
        mark_public(&mut data);
        mark_public(&mut tag);
        let open = |wrong: usize| {
            let (mut data, mut tag) = (data.clone(), tag.clone());
            tag[wrong] ^= 1;
            let mut result = Ok(());
            let decisions = count_decisions(|| result = session.open(&iv, &aad, &mut data, &tag));
            assert!(result.is_err(), "{algorithm}: a wrong tag");
            decisions
        };
        for wrong in [0, 1, tag.len() / 2, tag.len() - 1] {
            assert_eq!(open(wrong), 1, "{algorithm}, wrong at {wrong}");
        }
        tested += 1;
    }
    assert!(tested > 0);
}

/// Returns bytes without a simple pattern.
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| (((i + seed) * 167) >> 3) as u8).collect()
}
