//! The CPU time of transfers and handshakes with each provider of rustls, both ends in one thread.
//!
//! The providers take turns. The ratio is the peer's time divided by Gantry's, the median over the rounds: above 1, Gantry is faster.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, NamedGroup, RootCertStore, ServerConfig,
    ServerConnection, SideData, SupportedCipherSuite,
};

/// Measured rounds.
const ROUNDS: usize = 31;
/// Rounds before the measured ones, in which Gantry learns the routes.
const WARM_UP_ROUNDS: usize = 8;
/// Bytes of a transfer, one in each round.
const TRANSFER_BYTES: usize = 32 << 20;
/// Handshakes in a round.
const HANDSHAKES_PER_ROUND: usize = 100;
/// Bytes that are written at once.
const CHUNK_BYTES: usize = 64 << 10;

fn main() {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = identity.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let providers = [
        ("gantry", gantry_rustls::default_provider()),
        ("aws-lc-rs", aws_lc_rs::default_provider()),
        ("ring", ring::default_provider()),
        ("graviola", rustls_graviola::default_provider()),
    ];
    let suites = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ];
    for suite in suites {
        let configs = providers.each_ref().map(|(_, provider)| configs(provider, suite, &certificate, &key));
        let name = suite.as_str().unwrap();
        report(&format!("{name}, transfer"), &providers, "MB/s", TRANSFER_BYTES as f64 / 1e6, |place| {
            let (mut client, mut server) = connect(&configs[place]);
            let sent = transfer(&mut server, &mut client);
            assert_eq!(sent, TRANSFER_BYTES);
        });
        report(&format!("{name}, handshake"), &providers, "handshakes/s", HANDSHAKES_PER_ROUND as f64, |place| {
            for _ in 0..HANDSHAKES_PER_ROUND {
                connect(&configs[place]);
            }
        });
    }
}

/// Measures the providers in turn. Prints for each one the amount per second, and the ratio of its time to Gantry's time.
fn report<const N: usize>(
    title: &str,
    providers: &[(&str, CryptoProvider); N],
    unit: &str,
    amount: f64,
    run: impl Fn(usize),
) {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        for (place, times) in times.iter_mut().enumerate() {
            let begun = cpu_time();
            run(place);
            let took = (cpu_time() - begun).as_secs_f64();
            if round >= WARM_UP_ROUNDS {
                times.push(took);
            }
        }
    }
    println!("{title}");
    for ((name, _), peer) in providers.iter().zip(&times) {
        let ratio = median(peer.iter().zip(&times[0]).map(|(peer, ours)| peer / ours).collect());
        println!("  {name:10} {:8.0} {unit}, ratio {ratio:.2}", amount / median(peer.clone()));
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

type Configs = (Arc<ClientConfig>, Arc<ServerConfig>);

/// Returns the configurations of both ends: one suite, X25519 (which all providers have), and no resumption.
fn configs(
    provider: &CryptoProvider,
    suite: CipherSuite,
    certificate: &CertificateDer<'static>,
    key: &PrivatePkcs8KeyDer<'static>,
) -> Configs {
    let mut provider = provider.clone();
    provider.cipher_suites.retain(|other| other.suite() == suite);
    provider.kx_groups.retain(|group| group.name() == NamedGroup::X25519);
    let versions = &[provider.cipher_suites.first().map(SupportedCipherSuite::version).unwrap()];
    let provider = Arc::new(provider);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.resumption = rustls::client::Resumption::disabled();
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let chain = vec![certificate.clone()];
    let mut server = server.with_no_client_auth().with_single_cert(chain, key.clone_key().into()).unwrap();
    server.send_tls13_tickets = 0;
    (Arc::new(client), Arc::new(server))
}

fn connect((client, server): &Configs) -> (ClientConnection, ServerConnection) {
    let mut client = ClientConnection::new(client.clone(), "localhost".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let mut wire = Vec::new();
    while client.is_handshaking() || server.is_handshaking() {
        deliver(&mut client, &mut server, &mut wire, &mut []);
        deliver(&mut server, &mut client, &mut wire, &mut []);
    }
    (client, server)
}

/// Sends a transfer through memory. Returns the bytes that arrived.
fn transfer(from: &mut ServerConnection, to: &mut ClientConnection) -> usize {
    let (chunk, mut wire, mut content) = (vec![7; CHUNK_BYTES], Vec::new(), vec![0; CHUNK_BYTES]);
    let send = |_| {
        from.writer().write_all(&chunk).unwrap();
        deliver(from, to, &mut wire, &mut content)
    };
    (0..TRANSFER_BYTES / CHUNK_BYTES).map(send).sum()
}

/// Moves the records of one end through `wire` to the other, which decrypts them into `content`. Returns the bytes of content.
fn deliver<A: SideData, B: SideData>(
    from: &mut ConnectionCommon<A>,
    to: &mut ConnectionCommon<B>,
    wire: &mut Vec<u8>,
    content: &mut [u8],
) -> usize {
    wire.clear();
    while from.wants_write() {
        from.write_tls(wire).unwrap();
    }
    let (mut bytes, mut arrived) = (&wire[..], 0);
    while !bytes.is_empty() {
        to.read_tls(&mut bytes).unwrap();
        to.process_new_packets().unwrap();
        while let Ok(read @ 1..) = to.reader().read(content) {
            arrived += read;
        }
    }
    arrived
}
