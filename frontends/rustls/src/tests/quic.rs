//! The keys of QUIC, which come from aws-lc-rs.

use rustls::quic::{ClientConnection, KeyChange, Keys, ServerConnection, Version};
use rustls::version::TLS13;
use rustls::{CipherSuite, Side, Tls13CipherSuite};

use super::*;

fn suite(name: CipherSuite) -> &'static Tls13CipherSuite {
    let suites = gantry().cipher_suites;
    suites.iter().find(|suite| suite.suite() == name).unwrap().tls13().unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn an_initial_packet_is_that_of_rfc_9001() {
    let suite = suite(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let connection = hex("8394c8f03e515708");
    let keys = |side| Keys::initial(Version::V1, suite, suite.quic.unwrap(), &connection, side);
    // RFC 9001, A.3: the server's packet.
    let server = keys(Side::Server);
    let mut header = hex("c1000000010008f067a5502a4262b50040750001");
    let mut payload = hex(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e0033
         0024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304",
    );
    let plaintext = payload.clone();
    let tag = server.local.packet.encrypt_in_place(1, &header, &mut payload).unwrap();
    payload.extend_from_slice(tag.as_ref());
    let (first, number) = header.split_at_mut(18);
    server.local.header.encrypt_in_place(&payload[2..18], &mut first[0], number).unwrap();
    let packet = [&header[..], &payload].concat();
    let expected = hex(
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec
         2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850
         abbdca3d20398c276456cbc42158407dd074ee",
    );
    assert_eq!(packet, expected);
    // The client opens it.
    let client = keys(Side::Client);
    let (first, number) = header.split_at_mut(18);
    client.remote.header.decrypt_in_place(&payload[2..18], &mut first[0], number).unwrap();
    assert_eq!(client.remote.packet.decrypt_in_place(1, &header, &mut payload).unwrap(), plaintext);
}

#[test]
fn a_handshake_gives_both_ends_the_same_keys() {
    for suite in gantry().cipher_suites.iter().filter(|suite| suite.version() == &TLS13) {
        let identity = Identity::for_suite(suite.suite());
        let provider = || with_suite(gantry(), suite.suite());
        let (mut client, mut server) = (identity.client(provider(), &[&TLS13]), identity.server(provider(), &[&TLS13]));
        client.alpn_protocols = vec![b"h3".to_vec()];
        server.alpn_protocols.clone_from(&client.alpn_protocols);
        let mut client = ClientConnection::new(Arc::new(client), Version::V1, server_name(), vec![]).unwrap();
        let mut server = ServerConnection::new(Arc::new(server), Version::V1, vec![]).unwrap();
        let (mut client_keys, mut server_keys) = (None, None);
        while client_keys.is_none() || server_keys.is_none() {
            // Each call stops at a change of keys.
            let mut bytes = Vec::new();
            keep_last_keys(client.write_hs(&mut bytes), &mut client_keys);
            if !bytes.is_empty() {
                server.read_hs(&bytes).unwrap();
            }
            bytes.clear();
            keep_last_keys(server.write_hs(&mut bytes), &mut server_keys);
            if !bytes.is_empty() {
                client.read_hs(&bytes).unwrap();
            }
        }
        let (client, server) = (client_keys.unwrap(), server_keys.unwrap());
        let mut packet = content(1200);
        let tag = client.local.packet.encrypt_in_place(3, b"header", &mut packet).unwrap();
        packet.extend_from_slice(tag.as_ref());
        assert_eq!(server.remote.packet.decrypt_in_place(3, b"header", &mut packet).unwrap(), content(1200));
    }
}

/// Keeps the last keys of a handshake.
fn keep_last_keys(change: Option<KeyChange>, keys: &mut Option<Keys>) {
    if let Some(KeyChange::OneRtt { keys: last, .. }) = change {
        *keys = Some(last);
    }
}
