//! The provider in tests, which moves every key to the lanes at its first record of at least 256 bytes, unless the CPU has no lanes.

mod openssl;
mod quic;
mod records;
mod transfers;

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use gantry_core::Algorithm;
use gantry_core::stats::SnapshotRow;
use gantry_lab::wait_until;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection,
    SideData, SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::framework::Framework;

/// Returns the provider once the framework is open, which another test may be opening.
fn gantry() -> CryptoProvider {
    let provider = crate::default_provider();
    wait_until("the framework is open", || Framework::current().is_some());
    provider
}

/// Returns the provider with one suite.
fn with_suite(provider: CryptoProvider, suite: CipherSuite) -> CryptoProvider {
    let cipher_suites = provider.cipher_suites.into_iter().filter(|other| other.suite() == suite).collect();
    CryptoProvider { cipher_suites, ..provider }
}

/// A self-signed certificate of `localhost`, and its key.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    fn new(algorithm: &'static rcgen::SignatureAlgorithm) -> Self {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { certificate: certificate.der().clone(), key: key.serialize_der().into() }
    }

    /// Returns an identity that the suite can use.
    fn for_suite(suite: CipherSuite) -> Self {
        let is_rsa = suite.as_str().is_some_and(|name| name.contains("_RSA_"));
        Self::new(if is_rsa { &rcgen::PKCS_RSA_SHA256 } else { &rcgen::PKCS_ECDSA_P256_SHA256 })
    }

    fn client(&self, provider: CryptoProvider, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions);
        builder.unwrap().with_root_certificates(roots).with_no_client_auth()
    }

    fn server(&self, provider: CryptoProvider, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions);
        let chain = vec![self.certificate.clone()];
        builder.unwrap().with_no_client_auth().with_single_cert(chain, self.key.clone_key().into()).unwrap()
    }

    /// Returns a client and a server for one suite, after the handshake.
    fn connect(&self, client: CryptoProvider, server: CryptoProvider, suite: &SupportedCipherSuite) -> ConnectionPair {
        let (name, versions) = (suite.suite(), &[suite.version()][..]);
        let client = self.client(with_suite(client, name), versions);
        let server = self.server(with_suite(server, name), versions);
        let client = ClientConnection::new(Arc::new(client), server_name()).unwrap();
        let mut pair = ConnectionPair { client, server: ServerConnection::new(Arc::new(server)).unwrap() };
        while pair.client.is_handshaking() || pair.server.is_handshaking() {
            deliver(&mut pair.client, &mut pair.server).unwrap();
            deliver(&mut pair.server, &mut pair.client).unwrap();
        }
        assert_eq!(pair.client.negotiated_cipher_suite().unwrap().suite(), name);
        pair
    }
}

fn server_name() -> ServerName<'static> {
    "localhost".try_into().unwrap()
}

/// The two ends of a connection.
struct ConnectionPair {
    client: ClientConnection,
    server: ServerConnection,
}

/// Takes the bytes that an end wants to send.
fn take_output<D: SideData>(from: &mut ConnectionCommon<D>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Gives an end bytes of the other one, and returns the content of their records.
fn receive<D: SideData>(to: &mut ConnectionCommon<D>, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut content = Vec::new();
    while !bytes.is_empty() {
        to.read_tls(&mut bytes).unwrap();
        to.process_new_packets()?;
        match to.reader().read_to_end(&mut content) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
            _ => {}
        }
    }
    Ok(content)
}

fn deliver<A: SideData, B: SideData>(
    from: &mut ConnectionCommon<A>,
    to: &mut ConnectionCommon<B>,
) -> Result<Vec<u8>, rustls::Error> {
    let bytes = take_output(from);
    receive(to, &bytes)
}

/// Sends content, and checks that it arrives.
fn send_content<A: SideData, B: SideData>(
    from: &mut ConnectionCommon<A>,
    to: &mut ConnectionCommon<B>,
    content: &[u8],
) {
    from.set_buffer_limit(None);
    from.writer().write_all(content).unwrap();
    assert!(deliver(from, to).unwrap() == content, "{} bytes", content.len());
}

/// Returns `length` bytes, different in each block.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ index >> 8 ^ index >> 16) as u8).collect()
}

/// Returns the number of requests that lanes have served; `None` if this CPU has no lanes for AES-GCM.
fn served_by_lanes() -> Option<u64> {
    let gantry = Framework::current()?.caller_device()?.gantry();
    gantry.device("lanes")?.capability(Algorithm::Aes128Gcm)?;
    let is_lanes = |row: &&SnapshotRow| row.device.as_ref().is_some_and(|(name, _)| name == "lanes");
    Some(gantry.stats().rows.iter().filter(is_lanes).map(SnapshotRow::requests).sum())
}

/// Both providers, with a name for messages.
fn providers() -> [(&'static str, CryptoProvider); 2] {
    [("gantry", gantry()), ("aws-lc-rs", aws_lc_rs::default_provider())]
}
