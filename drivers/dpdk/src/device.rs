use std::sync::Arc;

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceLimits, DeviceSession, MemoryKinds, QueuePair, Refusal,
};
use gantry_core::{Algorithm, AlgorithmInfo, Fault, Kind, SessionParams};

use crate::engine::{Engine, SLOTS};
use crate::queue::DpdkQueue;
use crate::rsa::{self, RsaSession};
use crate::session::{self, DpdkSession};
use crate::sys::{self, Cryptodev, MOST_DATA, Offer};

pub(crate) const CIPHER: u32 = 1;
pub(crate) const AUTH: u32 = 2;
pub(crate) const AEAD: u32 = 3;
pub(crate) const CHAIN: u32 = 4;

const NULL: u32 = 1;
const AES_CBC: u32 = 2;
const AES_CTR: u32 = 3;
const AES_ECB: u32 = 4;
const DES3_CBC: u32 = 5;

const HMAC_MD5: u32 = 11;
const AES_CMAC: u32 = 21;
const AES_GMAC: u32 = 22;

const AES_GCM: u32 = 1;
const AES_CCM: u32 = 2;
const CHACHA20_POLY1305: u32 = 3;

/// How DPDK computes an algorithm, by the numbers of the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Cipher(u32),
    /// Digests and MACs.
    Auth(u32),
    Aead(u32),
    /// Encrypt, then authenticate, in one operation.
    Chain {
        cipher: u32,
        auth: u32,
    },
}

impl Way {
    /// Whether a counter of AES-CTR counts blocks here.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Way::Cipher(AES_CTR) | Way::Chain { cipher: AES_CTR, .. })
    }

    pub(crate) fn is_hmac(self) -> bool {
        matches!(self, Way::Auth(HMAC_MD5..AES_CMAC))
    }

    /// CCM has a layout of its own for nonce and associated data.
    pub(crate) fn is_ccm(self) -> bool {
        self == Way::Aead(AES_CCM)
    }
}

/// `None` for what cryptodev has no name for, and for XTS: no PMD that runs without hardware has it, so that nobody could say
/// whether data of odd lengths come out right.
pub(crate) fn way(algorithm: Algorithm) -> Option<Way> {
    use Algorithm as A;
    let info = algorithm.info();
    Some(match algorithm {
        A::Null => Way::Cipher(NULL),
        A::Aes128Ecb | A::Aes192Ecb | A::Aes256Ecb => Way::Cipher(AES_ECB),
        A::Aes128Cbc | A::Aes192Cbc | A::Aes256Cbc => Way::Cipher(AES_CBC),
        A::Aes128Ctr | A::Aes192Ctr | A::Aes256Ctr => Way::Cipher(AES_CTR),
        A::DesEde3Cbc => Way::Cipher(DES3_CBC),
        A::Aes128Cmac | A::Aes192Cmac | A::Aes256Cmac => Way::Auth(AES_CMAC),
        A::Aes128Gmac | A::Aes192Gmac | A::Aes256Gmac => Way::Auth(AES_GMAC),
        A::Aes128Gcm | A::Aes192Gcm | A::Aes256Gcm => Way::Aead(AES_GCM),
        A::Aes128Ccm | A::Aes192Ccm | A::Aes256Ccm => Way::Aead(AES_CCM),
        A::ChaCha20Poly1305 => Way::Aead(CHACHA20_POLY1305),
        _ => match (info.kind, info.cipher, info.digest) {
            (Kind::Digest, ..) => Way::Auth(hash(algorithm)?.0),
            (Kind::Mac, _, Some(digest)) => Way::Auth(hash(digest)?.1),
            (Kind::Aead, Some(cipher), Some(digest)) => match way(cipher)? {
                Way::Cipher(cipher) => Way::Chain { cipher, auth: hash(digest)?.1 },
                _ => return None,
            },
            _ => return None,
        },
    })
}

/// The numbers of a digest and of its HMAC.
fn hash(digest: Algorithm) -> Option<(u32, u32)> {
    const HASHES: [Algorithm; 10] = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
        Algorithm::Sha3_224,
        Algorithm::Sha3_256,
        Algorithm::Sha3_384,
        Algorithm::Sha3_512,
    ];
    let place = HASHES.iter().position(|hash| *hash == digest)? as u32;
    Some((1 + place, HMAC_MD5 + place))
}

/// What a device offers of one algorithm, with the lengths that it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) way: Way,
    /// Of a chain, the cipher's.
    pub(crate) main: Offer,
    /// Of a chain, the MAC's; else the same again.
    pub(crate) auth: Offer,
}

impl Offered {
    /// If the device can do what an algorithm needs to be offered at all: its key, its whole tag, and the usual nonce.
    pub(crate) fn of(algorithm: Algorithm, offers: &[Offer], chains: bool) -> Option<Self> {
        let info = algorithm.info();
        let way = way(algorithm)?;
        let find = |kind, algorithm, fits: &dyn Fn(&Offer) -> bool| {
            offers.iter().find(|offer| offer.kind == kind && offer.algorithm == algorithm && fits(offer)).copied()
        };
        let iv = if info.iv.min == info.iv.max { info.iv.min } else { 12 };
        let cipher = |offer: &Offer| offer.key.allows(info.key.min) && offer.iv.allows(iv);
        let auth = |offer: &Offer| offer.tag.allows(info.tag.max) && (info.iv.max == 0 || offer.iv.allows(iv));
        let keyed = |offer: &Offer| info.key.min == 0 || offer.key.allows(info.key.min);
        let (main, auth) = match way {
            Way::Cipher(number) => find(CIPHER, number, &cipher).map(|offer| (offer, offer))?,
            Way::Auth(number) => {
                find(AUTH, number, &|offer| auth(offer) && keyed(offer)).map(|offer| (offer, offer))?
            }
            Way::Aead(number) => {
                let fits = |offer: &Offer| cipher(offer) && offer.tag.allows(info.tag.max);
                find(AEAD, number, &fits).map(|offer| (offer, offer))?
            }
            Way::Chain { cipher: number, auth } if chains => {
                let tag = |offer: &Offer| offer.tag.allows(info.tag.max);
                (find(CIPHER, number, &cipher)?, find(AUTH, auth, &tag)?)
            }
            Way::Chain { .. } => return None,
        };
        Some(Self { way, main, auth })
    }
}

/// A cryptodev as a device of Gantry.
pub(crate) struct DpdkDevice {
    info: DeviceInfo,
    offers: Vec<Offer>,
    engine: Arc<Engine>,
}

impl DpdkDevice {
    /// `name` is the vdev's, or the PCI address; `version` DPDK's.
    pub(crate) fn new(name: &str, version: &str, engine: Arc<Engine>) -> Self {
        let Cryptodev { driver, hardware, chains, .. } = &engine.cryptodev;
        let offers = engine.cryptodev.offers();
        let (class, lanes) = kind(driver, *hardware);
        let offered = Algorithm::ALL
            .iter()
            .filter(|algorithm| !mixes_up(driver, **algorithm) && Offered::of(**algorithm, &offers, *chains).is_some());
        let capability = |algorithm: &Algorithm| Capability {
            lanes,
            ring: SLOTS as usize,
            max_bytes: MOST_DATA,
            direct: false,
            ..Capability::new(*algorithm)
        };
        let rsa = rsa::ALGORITHMS
            .iter()
            .filter(|(_, bytes)| engine.cryptodev.has_rsa(*bytes))
            .map(|(algorithm, _)| algorithm);
        let lends = engine.cryptodev.lends();
        let but = if lends { ", but of regions" } else { "" };
        // Of foreign memory, what is authenticated is copied all the same (`DpdkSession::lendable`).
        let memory = MemoryKinds { regions: lends, foreign: lends };
        let info = DeviceInfo {
            description: format!("DPDK: {driver}; data are copied there and back{but}"),
            version: version.to_owned(),
            capabilities: offered.chain(rsa).map(capability).collect(),
            limits: DeviceLimits {
                queue_pairs: engine.queues as usize,
                segments: 1,
                memory,
                ..DeviceLimits::default()
            },
            ..DeviceInfo::new(format!("dpdk:{name}"), class)
        };
        Self { info, offers, engine }
    }
}

/// Whether a PMD keeps to the standards in two cases that its capabilities do not mention: an HMAC of no data, and a counter of
/// AES-CTR that is more than 32 bits wide. ipsec-mb does neither, and says so of neither: the empty message spoils the lanes
/// beside it. Of hardware nobody here knows.
fn is_exact(driver: &str) -> bool {
    driver == "crypto_openssl"
}

/// Whether a PMD gives requests the results of others beside them, which no known answer shows. On CPUs with AVX-512, ipsec-mb did so
/// with DES until the middle of 2025 (intel/intel-ipsec-mb, issue 169); its version cannot be asked for. A scheduler may have its PMD
/// work for it.
fn mixes_up(driver: &str, algorithm: Algorithm) -> bool {
    ["crypto_aesni_mb", "crypto_scheduler"].contains(&driver) && algorithm == Algorithm::DesEde3Cbc
}

/// What stands behind a PMD, and how many requests it works on side by side.
fn kind(driver: &str, hardware: bool) -> (Class, usize) {
    match driver {
        _ if hardware => (Class::Hardware, 1),
        // What ipsec-mb computes in lanes; it has 8 of them with AVX2.
        "crypto_aesni_mb" => (Class::Simd, 8),
        "crypto_null" => (Class::Model, 1),
        _ => (Class::Software, 1),
    }
}

impl Device for DpdkDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        if sys::forked() {
            return Err(of_parent().into());
        }
        if let Some((_, bytes)) = rsa::ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == params.algorithm()) {
            return Ok(Arc::new(RsaSession::new(&self.engine, params, *bytes)?));
        }
        let offered = Offered::of(params.algorithm(), &self.offers, self.engine.cryptodev.chains);
        let offered = offered.ok_or_else(|| session::unsupported("the device has no such algorithm"))?;
        let exact = is_exact(&self.engine.cryptodev.driver);
        Ok(Arc::new(DpdkSession::new(&self.engine, params, offered, exact)?))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        if sys::forked() {
            return Err(of_parent());
        }
        let queue = DpdkQueue::new(&self.engine)?;
        Ok(queue.map(|queue| Box::new(queue) as Box<dyn QueuePair>))
    }
}

/// DPDK is not made for `fork`: a child shares rings and memory with its parent.
pub(crate) fn of_parent() -> Fault {
    Fault::failed("DPDK belongs to the parent process")
}

/// Whether an algorithm takes keys of more than one length.
pub(crate) fn has_free_key(info: &AlgorithmInfo) -> bool {
    info.key.min != info.key.max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triple_des_is_not_taken_from_ipsec_mb() {
        for driver in ["crypto_aesni_mb", "crypto_scheduler"] {
            assert!(mixes_up(driver, Algorithm::DesEde3Cbc) && !mixes_up(driver, Algorithm::Aes128Cbc), "{driver}");
        }
        assert!(!mixes_up("crypto_openssl", Algorithm::DesEde3Cbc));
    }

    #[test]
    fn algorithms_are_asked_for_by_the_numbers_of_the_shim() {
        assert_eq!(way(Algorithm::Aes192Cbc), Some(Way::Cipher(AES_CBC)));
        assert_eq!(way(Algorithm::Sha256), Some(Way::Auth(4)));
        assert_eq!(way(Algorithm::HmacSha1), Some(Way::Auth(12)));
        assert_eq!(way(Algorithm::HmacSha3_512), Some(Way::Auth(20)));
        assert_eq!(way(Algorithm::Aes128CtrHmacSha512), Some(Way::Chain { cipher: AES_CTR, auth: 16 }));
        assert!(way(Algorithm::Aes256Ccm).unwrap().is_ccm());
        for none in [Algorithm::Aes256Xts, Algorithm::ChaCha20, Algorithm::Poly1305, Algorithm::EcdsaP256] {
            assert_eq!(way(none), None, "{none}");
        }
    }
}
