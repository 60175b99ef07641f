//! Handshakes and transfers between Gantry and aws-lc-rs.

use rustls::crypto::aws_lc_rs;
use rustls::version::TLS13;
use rustls::{Error, NamedGroup};

use super::*;

/// Lengths around the borders of records, and one of many records.
const LENGTHS: [usize; 9] = [0, 1, 255, 256, 4096, 16_383, 16_384, 16_385, 1 << 20];

#[test]
fn every_suite_transfers_between_every_two_providers() {
    for suite in gantry().cipher_suites {
        let identity = Identity::for_suite(suite.suite());
        for (client_name, client) in providers() {
            for (server_name, server) in providers() {
                println!("{:?}: {client_name} to {server_name}", suite.suite());
                let ConnectionPair { mut client, mut server } = identity.connect(client.clone(), server, &suite);
                for length in LENGTHS {
                    send_content(&mut client, &mut server, &content(length));
                    send_content(&mut server, &mut client, &content(length));
                }
            }
        }
    }
}

#[test]
fn lanes_serve_every_suite_with_gcm() {
    for suite in gantry().cipher_suites.iter().filter(|suite| crate::gcm_algorithm(suite.suite()).is_some()) {
        let ConnectionPair { mut client, mut server } =
            Identity::for_suite(suite.suite()).connect(gantry(), gantry(), suite);
        let mut send_both_ways = || {
            send_content(&mut client, &mut server, &content(16_384));
            send_content(&mut server, &mut client, &content(16_384));
        };
        send_both_ways();
        let Some(before) = served_by_lanes() else { return };
        send_both_ways();
        // Other tests may run at the same time and add to the number.
        assert!(served_by_lanes().unwrap() >= before + 4, "{:?}", suite.suite());
    }
}

#[test]
fn a_connection_continues_after_key_updates() {
    for (_, peer) in providers() {
        for suite in gantry().cipher_suites.iter().filter(|suite| suite.version() == &TLS13) {
            let identity = Identity::for_suite(suite.suite());
            let ConnectionPair { mut client, mut server } = identity.connect(gantry(), peer.clone(), suite);
            for round in 0..5 {
                send_content(&mut client, &mut server, &content(40_000 * round));
                send_content(&mut server, &mut client, &content(40_000 * round));
                client.refresh_traffic_keys().unwrap();
                send_content(&mut client, &mut server, &content(100));
                server.refresh_traffic_keys().unwrap();
            }
        }
    }
}

#[test]
fn a_changed_record_is_refused() {
    for suite in gantry().cipher_suites {
        let identity = Identity::for_suite(suite.suite());
        // Short records stay with aws-lc-rs, long ones go to the lanes.
        for length in [10, 16_000] {
            // Changes the explicit nonce or the first block, the middle, or the last byte of the tag.
            for choice in 0..3 {
                let (client, server) = (gantry(), gantry());
                let mut pair = identity.connect(client, server, &suite);
                pair.client.writer().write_all(&content(length)).unwrap();
                let mut record = take_output(&mut pair.client);
                let index = [5, record.len() / 2, record.len() - 1][choice];
                record[index] ^= 1;
                assert_eq!(receive(&mut pair.server, &record), Err(Error::DecryptError), "{suite:?}, byte {index}");
            }
        }
    }
}

#[test]
fn records_out_of_order_are_refused() {
    for suite in gantry().cipher_suites {
        let identity = Identity::for_suite(suite.suite());
        let mut pair = identity.connect(gantry(), gantry(), &suite);
        send_content(&mut pair.client, &mut pair.server, &content(16_000));
        pair.client.writer().write_all(&content(16_000)).unwrap();
        let record = take_output(&mut pair.client);
        assert_eq!(receive(&mut pair.server, &record).unwrap().len(), 16_000);
        assert_eq!(receive(&mut pair.server, &record), Err(Error::DecryptError), "{suite:?}: a replay");
    }
}

#[test]
fn everything_but_records_comes_from_aws_lc_rs() {
    let (ours, own) = (gantry(), aws_lc_rs::default_provider());
    let suites =
        |provider: &CryptoProvider| provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect::<Vec<_>>();
    let groups = |provider: &CryptoProvider| provider.kx_groups.iter().map(|group| group.name()).collect::<Vec<_>>();
    assert_eq!(suites(&ours), suites(&own));
    assert_eq!(groups(&ours), groups(&own));
    assert_eq!(groups(&ours)[0], NamedGroup::X25519MLKEM768);
    assert_eq!(
        ours.signature_verification_algorithms.supported_schemes(),
        own.signature_verification_algorithms.supported_schemes()
    );
    assert!(!ours.fips());
    let leaked = || gantry().cipher_suites[0].tls13().map(std::ptr::from_ref);
    assert_eq!(leaked(), leaked(), "suites are made once");
}
