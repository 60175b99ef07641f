//! Suites with keys, SAs and policies, as `ip xfrm` takes them.

use gantry_protocols::esp::{Integrity, Suite};

use crate::host::{Host, Pair};

/// Indexes of IPv4 and IPv6 in a host's arrays of addresses.
pub(crate) const V4: usize = 0;
pub(crate) const V6: usize = 1;

/// A suite and its keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) suite: Suite,
    pub(crate) key: Vec<u8>,
    pub(crate) integrity_key: Vec<u8>,
}

/// Integrity algorithms: the name in XFRM, the length of the key in bytes, and the length of the tag in bits.
const HMACS: [(Integrity, &str, usize, u32); 5] = [
    (Integrity::HmacSha1, "hmac(sha1)", 20, 96),
    (Integrity::HmacSha256, "hmac(sha256)", 32, 128),
    (Integrity::HmacSha256_96, "hmac(sha256)", 32, 96),
    (Integrity::HmacSha384, "hmac(sha384)", 48, 192),
    (Integrity::HmacSha512, "hmac(sha512)", 64, 256),
];

impl Keys {
    /// Generates fresh keys. `key` is the length of the cipher key in bytes, salt included.
    pub(crate) fn new(suite: Suite, key: usize) -> Self {
        let integrity_key = match suite {
            Suite::AesCbc(integrity) | Suite::AesCtr(integrity) | Suite::Null(integrity) => hmac(integrity).2,
            _ => 0,
        };
        let random = |bytes| {
            let mut all = vec![0; bytes];
            getrandom::fill(&mut all).unwrap();
            all
        };
        Self { suite, key: random(key), integrity_key: random(integrity_key) }
    }

    /// AES-128-GCM with the full tag.
    pub(crate) fn gcm() -> Self {
        Self::new(Suite::AesGcm { icv: 16 }, 20)
    }

    /// Returns the same suite with other keys.
    pub(crate) fn with_other_keys(&self) -> Self {
        Self::new(self.suite, self.key.len())
    }

    /// Formats the keys as arguments of `ip xfrm state`.
    pub(crate) fn text(&self) -> String {
        let key = hex(&self.key);
        let (cipher, integrity) = match self.suite {
            Suite::AesGcm { icv } => return format!("aead rfc4106(gcm(aes)) {key} {}", u32::from(icv) * 8),
            Suite::AesCcm { icv } => return format!("aead rfc4309(ccm(aes)) {key} {}", u32::from(icv) * 8),
            Suite::AesGmac => return format!("aead rfc4543(gcm(aes)) {key} 128"),
            Suite::ChaCha20Poly1305 => return format!("aead rfc7539esp(chacha20,poly1305) {key} 128"),
            Suite::AesCbc(integrity) => (format!("enc cbc(aes) {key}"), integrity),
            Suite::AesCtr(integrity) => (format!("enc rfc3686(ctr(aes)) {key}"), integrity),
            Suite::Null(integrity) => ("enc ecb(cipher_null) \"\"".to_owned(), integrity),
            other => panic!("{other:?} has no name"),
        };
        let (_, name, _, bits) = hmac(integrity);
        format!("auth-trunc {name} {} {bits} {cipher}", hex(&self.integrity_key))
    }
}

/// Returns all suites, with keys of each length.
pub(crate) fn suites() -> Vec<Keys> {
    let lengths = [16, 24, 32];
    let gcm = [8, 12, 16].into_iter().flat_map(|icv| lengths.map(|key| Keys::new(Suite::AesGcm { icv }, key + 4)));
    let hmacs = HMACS.iter().flat_map(|(integrity, ..)| {
        let cbc = lengths.map(|key| Keys::new(Suite::AesCbc(*integrity), key));
        let ctr = lengths.map(|key| Keys::new(Suite::AesCtr(*integrity), key + 4));
        cbc.into_iter().chain(ctr).chain([Keys::new(Suite::Null(*integrity), 0)])
    });
    let ccm = [8, 12, 16].into_iter().flat_map(|icv| lengths.map(|key| Keys::new(Suite::AesCcm { icv }, key + 3)));
    let gmac = lengths.map(|key| Keys::new(Suite::AesGmac, key + 4));
    gcm.chain(ccm).chain(gmac).chain([Keys::new(Suite::ChaCha20Poly1305, 36)]).chain(hmacs).collect()
}

/// An SA from one host to another.
#[derive(Clone, Debug)]
pub(crate) struct Sa<'h> {
    pub(crate) from: &'h Host,
    pub(crate) to: &'h Host,
    /// The index of the outer addresses' family.
    pub(crate) outer: usize,
    pub(crate) spi: u32,
    pub(crate) reqid: u32,
    pub(crate) keys: Keys,
    pub(crate) in_udp: bool,
    /// Further arguments of `ip xfrm state add`.
    pub(crate) options: &'h str,
}

impl<'h> Sa<'h> {
    /// Builds an SA in IPv4 with reqid 1 and a window of 32 packets.
    pub(crate) fn new(from: &'h Host, to: &'h Host, spi: u32, keys: &Keys) -> Self {
        Self { from, to, outer: V4, spi, reqid: 1, keys: keys.clone(), in_udp: true, options: "replay-window 32" }
    }

    fn id(&self) -> String {
        let (from, to) = (self.from.outer[self.outer], self.to.outer[self.outer]);
        format!("src {from} dst {to} proto esp spi {:#x}", self.spi)
    }

    /// Returns the command that adds the SA.
    pub(crate) fn add_command(&self) -> String {
        let any = ["0.0.0.0", "::"][self.outer];
        let (id, keys, Self { reqid, options, .. }) = (self.id(), self.keys.text(), self);
        let encap = if self.in_udp { format!("encap espinudp 4500 4500 {any}") } else { String::new() };
        format!("state add {id} reqid {reqid} mode tunnel flag af-unspec {options} {keys} {encap}")
    }

    /// Returns the command that deletes the SA.
    pub(crate) fn delete_command(&self) -> String {
        format!("state delete {}", self.id())
    }

    /// Returns the template of a policy for the SA.
    pub(crate) fn template(&self) -> String {
        let (from, to) = (self.from.outer[self.outer], self.to.outer[self.outer]);
        format!("tmpl src {from} dst {to} proto esp reqid {} mode tunnel", self.reqid)
    }

    /// Returns the selector of packets from one inner address to the other.
    pub(crate) fn selector(&self, inner: usize) -> String {
        let bits = [32, 128][inner];
        format!("src {}/{bits} dst {}/{bits}", self.from.inner[inner], self.to.inner[inner])
    }

    /// Adds the SA at both ends.
    pub(crate) fn install(&self) {
        // The receiving end comes first.
        self.to.xfrm(&self.add_command());
        self.from.xfrm(&self.add_command());
    }

    pub(crate) fn remove(&self) {
        self.from.xfrm(&self.delete_command());
        self.to.xfrm(&self.delete_command());
    }
}

pub(crate) fn install(sas: &[&Sa<'_>]) {
    for sa in sas {
        sa.install();
    }
}

/// Adds policies at the host that sends through the SA `outbound` and receives through the SA `inbound`: for all packets between the inner
/// addresses.
pub(crate) fn add_policies(outbound: &Sa<'_>, inbound: &Sa<'_>) {
    let all = [V4, V6].map(|inner| {
        let sent = format!("{} dir out priority 9 {}", outbound.selector(inner), outbound.template());
        let received = format!("{} dir in priority 9 {}", inbound.selector(inner), inbound.template());
        format!("xfrm policy add {sent}\nxfrm policy add {received}\n")
    });
    outbound.from.xfrm_batch(&all.concat());
}

impl Pair {
    /// Adds a tunnel in UDP: SAs of both directions, and the policies of both hosts.
    pub(crate) fn add_tunnel(&self, keys: &Keys, outer: usize, options: &str) {
        self.add_tunnel_with_encap(keys, outer, options, true);
    }

    /// Adds a tunnel, in UDP if `in_udp` is true.
    pub(crate) fn add_tunnel_with_encap(&self, keys: &Keys, outer: usize, options: &str, in_udp: bool) {
        let a_to_b = Sa { outer, in_udp, options, ..Sa::new(&self.a, &self.b, 0x1001, keys) };
        let b_to_a = Sa { outer, in_udp, options, ..Sa::new(&self.b, &self.a, 0x1002, &keys.with_other_keys()) };
        for host in [&self.a, &self.b] {
            host.xfrm_batch(&format!("xfrm {}\nxfrm {}\n", a_to_b.add_command(), b_to_a.add_command()));
        }
        add_policies(&a_to_b, &b_to_a);
        add_policies(&b_to_a, &a_to_b);
    }

    /// Creates a pair with a tunnel of AES-GCM in IPv4.
    pub(crate) fn with_tunnel(plan: &crate::host::Plan) -> Self {
        let pair = Self::with_data_paths(plan);
        pair.add_tunnel(&Keys::gcm(), V4, "replay-window 128");
        pair
    }

    /// Removes all SAs and policies.
    pub(crate) fn remove_tunnel(&self) {
        for host in [&self.a, &self.b] {
            host.xfrm_batch("xfrm state flush\nxfrm policy flush\n");
        }
    }
}

/// Formats bytes as `ip xfrm` takes them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn hmac(integrity: Integrity) -> &'static (Integrity, &'static str, usize, u32) {
    HMACS.iter().find(|(candidate, ..)| *candidate == integrity).unwrap()
}
