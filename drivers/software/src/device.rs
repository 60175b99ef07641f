//! The device, and the table of its capabilities.

mod esp;

use std::sync::Arc;

use aws_lc_sys::AWSLC_VERSION_NUMBER_STRING;
use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Refusal, Unsupported};
use gantry_core::{Algorithm as A, Kind, SessionParams};
use k12::Kt128;
use turboshake::{TurboShake128, TurboShake256};

use crate::session::SessionResult;
use crate::{aead, cipher, curve, deflate, digest, etm, kem, mac, mldsa, p256, rsa, rsaes, slhdsa, turbo, xts, zstd};

/// The algorithms that this device does not serve, and why.
pub const UNSERVED: &[(A, &str)] = &[
    (A::Null, "not a cryptographic algorithm; the null device serves it"),
    (A::HmacRipemd160, "AWS-LC's HMAC does not take RIPEMD-160"),
    (A::Aes128Xts, "AWS-LC has XTS with two keys of 256 bits only"),
];

/// The capability of the device for one algorithm.
struct CapabilityRow {
    algorithm: A,
    open: fn(&SessionParams) -> SessionResult,
    streaming: bool,
    deterministic: bool,
    max_bytes: usize,
}

const fn row(algorithm: A, open: fn(&SessionParams) -> SessionResult) -> CapabilityRow {
    CapabilityRow { algorithm, open, streaming: false, deterministic: false, max_bytes: usize::MAX }
}

impl CapabilityRow {
    const fn streaming(self) -> Self {
        CapabilityRow { streaming: true, ..self }
    }

    const fn deterministic(self) -> Self {
        CapabilityRow { deterministic: true, ..self }
    }

    const fn max_bytes(self, max_bytes: usize) -> Self {
        CapabilityRow { max_bytes, ..self }
    }
}

const CAPABILITIES: &[CapabilityRow] = &[
    row(A::Md5, digest::open).streaming(),
    row(A::Sha1, digest::open).streaming(),
    row(A::Sha224, digest::open).streaming(),
    row(A::Sha256, digest::open).streaming(),
    row(A::Sha384, digest::open).streaming(),
    row(A::Sha512, digest::open).streaming(),
    row(A::Sha512_256, digest::open).streaming(),
    row(A::Sha3_224, digest::open).streaming(),
    row(A::Sha3_256, digest::open).streaming(),
    row(A::Sha3_384, digest::open).streaming(),
    row(A::Sha3_512, digest::open).streaming(),
    row(A::Shake128, digest::open).streaming(),
    row(A::Shake256, digest::open).streaming(),
    row(A::TurboShake128, turbo::open::<TurboShake128>).streaming(),
    row(A::TurboShake256, turbo::open::<TurboShake256>).streaming(),
    row(A::Kt128, turbo::open::<Kt128>).streaming(),
    row(A::Ripemd160, digest::open).streaming(),
    row(A::Blake2b256, digest::open).streaming(),
    row(A::HmacMd5, mac::open_hmac).streaming(),
    row(A::HmacSha1, mac::open_hmac).streaming(),
    row(A::HmacSha224, mac::open_hmac).streaming(),
    row(A::HmacSha256, mac::open_hmac).streaming(),
    row(A::HmacSha384, mac::open_hmac).streaming(),
    row(A::HmacSha512, mac::open_hmac).streaming(),
    row(A::HmacSha512_256, mac::open_hmac).streaming(),
    row(A::HmacSha3_224, mac::open_hmac).streaming(),
    row(A::HmacSha3_256, mac::open_hmac).streaming(),
    row(A::HmacSha3_384, mac::open_hmac).streaming(),
    row(A::HmacSha3_512, mac::open_hmac).streaming(),
    row(A::Aes128Cmac, mac::open_cmac).streaming(),
    row(A::Aes192Cmac, mac::open_cmac).streaming(),
    row(A::Aes256Cmac, mac::open_cmac).streaming(),
    row(A::Aes128Gmac, mac::open_gmac),
    row(A::Aes192Gmac, mac::open_gmac),
    row(A::Aes256Gmac, mac::open_gmac),
    row(A::Poly1305, mac::open_poly1305).streaming(),
    row(A::Aes128Ecb, cipher::open_ecb).streaming(),
    row(A::Aes192Ecb, cipher::open_ecb).streaming(),
    row(A::Aes256Ecb, cipher::open_ecb).streaming(),
    row(A::Aes128Cbc, cipher::open_cbc).streaming(),
    row(A::Aes192Cbc, cipher::open_cbc).streaming(),
    row(A::Aes256Cbc, cipher::open_cbc).streaming(),
    row(A::Aes128Ctr, cipher::open_ctr).streaming(),
    row(A::Aes192Ctr, cipher::open_ctr).streaming(),
    row(A::Aes256Ctr, cipher::open_ctr).streaming(),
    row(A::Aes128Ofb, cipher::open_ofb).streaming(),
    row(A::Aes192Ofb, cipher::open_ofb).streaming(),
    row(A::Aes256Ofb, cipher::open_ofb).streaming(),
    row(A::Aes128Cfb, cipher::open_cfb).streaming(),
    row(A::Aes192Cfb, cipher::open_cfb).streaming(),
    row(A::Aes256Cfb, cipher::open_cfb).streaming(),
    row(A::Aes256Xts, xts::open),
    row(A::DesEde3Cbc, cipher::open_des_ede3_cbc).streaming(),
    row(A::ChaCha20, cipher::open_chacha20).streaming(),
    row(A::Aes128Gcm, aead::open_streaming).streaming(),
    row(A::Aes192Gcm, aead::open_streaming).streaming(),
    row(A::Aes256Gcm, aead::open_streaming).streaming(),
    row(A::Aes128Ccm, aead::open_ccm).max_bytes(aead::CCM_MAX_BYTES),
    row(A::Aes192Ccm, aead::open_ccm).max_bytes(aead::CCM_MAX_BYTES),
    row(A::Aes256Ccm, aead::open_ccm).max_bytes(aead::CCM_MAX_BYTES),
    row(A::ChaCha20Poly1305, aead::open_streaming).streaming(),
    row(A::XChaCha20Poly1305, aead::open),
    row(A::Aes128CbcHmacSha1, etm::open),
    row(A::Aes192CbcHmacSha1, etm::open),
    row(A::Aes256CbcHmacSha1, etm::open),
    row(A::Aes128CbcHmacSha256, etm::open),
    row(A::Aes192CbcHmacSha256, etm::open),
    row(A::Aes256CbcHmacSha256, etm::open),
    row(A::Aes128CbcHmacSha384, etm::open),
    row(A::Aes192CbcHmacSha384, etm::open),
    row(A::Aes256CbcHmacSha384, etm::open),
    row(A::Aes128CbcHmacSha512, etm::open),
    row(A::Aes192CbcHmacSha512, etm::open),
    row(A::Aes256CbcHmacSha512, etm::open),
    row(A::Aes128CtrHmacSha1, etm::open),
    row(A::Aes192CtrHmacSha1, etm::open),
    row(A::Aes256CtrHmacSha1, etm::open),
    row(A::Aes128CtrHmacSha256, etm::open),
    row(A::Aes192CtrHmacSha256, etm::open),
    row(A::Aes256CtrHmacSha256, etm::open),
    row(A::Aes128CtrHmacSha384, etm::open),
    row(A::Aes192CtrHmacSha384, etm::open),
    row(A::Aes256CtrHmacSha384, etm::open),
    row(A::Aes128CtrHmacSha512, etm::open),
    row(A::Aes192CtrHmacSha512, etm::open),
    row(A::Aes256CtrHmacSha512, etm::open),
    row(A::Ed25519, curve::open_ed25519),
    row(A::X25519, curve::open_x25519),
    row(A::EcdsaP256, p256::open_ecdsa),
    row(A::EcdhP256, p256::open_ecdh),
    row(A::Rsa2048Pkcs1, rsa::open_pkcs1),
    row(A::Rsa3072Pkcs1, rsa::open_pkcs1),
    row(A::Rsa4096Pkcs1, rsa::open_pkcs1),
    row(A::Rsa2048Pss, rsa::open_pss),
    row(A::Rsa3072Pss, rsa::open_pss),
    row(A::Rsa4096Pss, rsa::open_pss),
    row(A::Rsa2048Raw, rsaes::open_raw),
    row(A::Rsa3072Raw, rsaes::open_raw),
    row(A::Rsa4096Raw, rsaes::open_raw),
    row(A::Rsaes2048Pkcs1, rsaes::open_pkcs1),
    row(A::Rsaes3072Pkcs1, rsaes::open_pkcs1),
    row(A::Rsaes4096Pkcs1, rsaes::open_pkcs1),
    row(A::MlKem512, kem::open),
    row(A::MlKem768, kem::open),
    row(A::MlKem1024, kem::open),
    row(A::MlDsa44, mldsa::open),
    row(A::MlDsa65, mldsa::open),
    row(A::MlDsa87, mldsa::open),
    row(A::SlhDsaSha2_128s, slhdsa::open).deterministic(),
    row(A::SlhDsaSha2_128f, slhdsa::open).deterministic(),
    row(A::SlhDsaSha2_192s, slhdsa::open).deterministic(),
    row(A::SlhDsaSha2_192f, slhdsa::open).deterministic(),
    row(A::SlhDsaSha2_256s, slhdsa::open).deterministic(),
    row(A::SlhDsaSha2_256f, slhdsa::open).deterministic(),
    row(A::SlhDsaShake128s, slhdsa::open).deterministic(),
    row(A::SlhDsaShake128f, slhdsa::open).deterministic(),
    row(A::SlhDsaShake192s, slhdsa::open).deterministic(),
    row(A::SlhDsaShake192f, slhdsa::open).deterministic(),
    row(A::SlhDsaShake256s, slhdsa::open).deterministic(),
    row(A::SlhDsaShake256f, slhdsa::open).deterministic(),
    row(A::EspAes128Gcm, esp::open),
    row(A::EspAes192Gcm, esp::open),
    row(A::EspAes256Gcm, esp::open),
    row(A::EspChaCha20Poly1305, esp::open),
    row(A::EspAes128CbcHmacSha1, esp::open),
    row(A::EspAes256CbcHmacSha1, esp::open),
    row(A::EspAes128CbcHmacSha256, esp::open),
    row(A::EspAes256CbcHmacSha256, esp::open),
    row(A::Deflate, deflate::open),
    row(A::Zlib, deflate::open),
    row(A::Gzip, deflate::open),
    row(A::Zstd, zstd::open),
];

/// Returns whether AWS-LC computes an algorithm. Other libraries are no part of a validated module.
fn is_of_aws_lc(algorithm: A) -> bool {
    let is_kangaroo = matches!(algorithm, A::TurboShake128 | A::TurboShake256 | A::Kt128);
    !is_kangaroo && !algorithm.is_slh_dsa() && algorithm.kind() != Kind::Compression
}

pub(crate) struct SoftwareDevice {
    info: DeviceInfo,
}

impl SoftwareDevice {
    pub(crate) fn new() -> Self {
        let version = AWSLC_VERSION_NUMBER_STRING.strip_suffix(b"\0").unwrap_or(AWSLC_VERSION_NUMBER_STRING);
        // SAFETY: returns a constant of the build.
        let validated = unsafe { aws_lc_sys::FIPS_mode() } == 1;
        let rows = CAPABILITIES.iter().filter(|row| !validated || is_of_aws_lc(row.algorithm));
        let capabilities = rows.map(|row| Capability {
            streaming: row.streaming,
            deterministic: row.deterministic,
            max_bytes: row.max_bytes,
            ..Capability::new(row.algorithm)
        });
        let info = DeviceInfo {
            description: "AWS-LC, one request at a time".into(),
            version: String::from_utf8_lossy(version).into_owned(),
            validated,
            capabilities: capabilities.collect(),
            ..DeviceInfo::new("software", Class::Software)
        };
        Self { info }
    }
}

impl Device for SoftwareDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(open(params)?)
    }
}

/// Opens a session of an offered algorithm.
pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let row = CAPABILITIES.iter().find(|row| row.algorithm == params.algorithm());
    (row.ok_or(Unsupported::because("the device does not offer the algorithm"))?.open)(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_either_offered_or_listed_as_unserved() {
        for algorithm in A::ALL {
            let offers = CAPABILITIES.iter().filter(|row| row.algorithm == *algorithm).count();
            let unserved = UNSERVED.iter().filter(|(unserved, _)| unserved == algorithm).count();
            assert_eq!(offers + unserved, 1, "{algorithm}: {offers} offers, {unserved} times unserved");
        }
    }

    #[test]
    fn the_version_is_that_of_aws_lc() {
        // SAFETY: returns a string that lives as long as the process.
        let version = unsafe { std::ffi::CStr::from_ptr(aws_lc_sys::OpenSSL_version(aws_lc_sys::OPENSSL_VERSION)) };
        let version = version.to_str().unwrap();
        let info = SoftwareDevice::new().info;
        assert!(!info.version.is_empty() && version.contains(&info.version), "{version} {}", info.version);
    }
}
