//! Opening a TLS record with a MAC under the encryption branches neither on padding nor on MAC before the verdict. Run by
//! `scripts/constant-time`, in valgrind.

#![cfg(target_arch = "x86_64")]

#[path = "../../drivers/lanes/src/constant_time/memcheck.rs"]
mod memcheck;

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_lanes::LanesDriver;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::tls::{Epoch, Hmac, MacOrder, MacSearch, Suite, unpadded_len};
use gantry_protocols::{Packet, PacketError};
use memcheck::{count_decisions, is_secret, mark_secret, self_test};

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn detects_branches_on_secrets() {
    self_test();
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn the_mac_search_has_no_branch_on_secrets() {
    for padding in [0, 1, 15, 200, 255] {
        let mut record = [&[7; 100][..], &[9; 20], &vec![padding; usize::from(padding) + 1]].concat();
        let mut computed = [9; 20];
        mark_secret(&mut record);
        mark_secret(&mut computed);
        let mut search = MacSearch::new(&record, 16, 20).unwrap();
        let mut length = 0;
        let decided = count_decisions(|| {
            search = MacSearch::new(&record, 16, 20).unwrap();
            length = search.claimed_message_len();
            for place in search.candidate_offsets() {
                search.compare(&record, place, &computed);
            }
            length ^= unpadded_len(&record) as u32;
        });
        assert_eq!(decided, 0, "{padding}");
        assert_eq!(search.message_len(), Some(100));
    }
}

/// The only branch on a secret is the verdict, whether padding or MAC is wrong. The keys are secret, too.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn opening_a_bad_record_branches_on_the_verdict_only() {
    let lanes = LanesDriver::default();
    let software = || Gantry::builder().driver(&SoftwareDriver);
    for gantry in [software().build(), software().driver(&lanes).build()] {
        let (mut key, mut mac_key) = ([3; 16], [4; 20]);
        let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
        let (cipher, hmac) = (session(Algorithm::Aes128Cbc, &key), session(Algorithm::HmacSha1, &mac_key));
        mark_secret(&mut key);
        mark_secret(&mut mac_key);
        assert!(is_secret(&key) && is_secret(&mac_key));
        // Records of equal length: content, change to the MAC, and padding.
        for (content, wrong, padding) in [
            (267, 1, vec![0]),
            (12, 1, vec![255; 256]),
            (268 - 16, 1, vec![15; 16]),
            (268 - 16, 0, [&[14][..], &[15; 15]].concat()),
            (268 - 16, 0, [&[15; 15][..], &[255]].concat()),
            (12, 0, [&[254][..], &[255; 255]].concat()),
        ] {
            let content = vec![6; content];
            let before = [&[0; 8][..], &[23, 3, 3], &(content.len() as u16).to_be_bytes()].concat();
            let mut mac = [0; 20];
            hmac.mac(&[&before, &content[..]].concat(), &mut mac).unwrap();
            mac[7] ^= wrong;
            let mut data = [&content[..], &mac, &padding].concat();
            let iv = [5; 16];
            cipher.encrypt(&iv, &mut data).unwrap();
            let length = 16 + data.len();
            let mut wire = [&[23, 3, 3][..], &(length as u16).to_be_bytes(), &iv, &data].concat();
            let suite = Suite::Tls12Cbc(Hmac::Sha1, MacOrder::MacThenEncrypt);
            let inbound = Epoch::new(suite, &key, &[]).mac_key(&mac_key).inbound(&gantry).unwrap();
            let length = wire.len();
            let mut packet = Packet::new(&mut wire, 0..length);
            let mut result = Ok(());
            let decided = count_decisions(|| result = inbound.open(&mut packet));
            assert_eq!((result, decided), (Err(PacketError::Forged), 1), "{} {wrong} {padding:?}", content.len());
        }
    }
}
