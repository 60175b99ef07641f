//! A cryptodev as a device of Gantry.

use std::sync::Arc;

use gantry_core::driver::{
    Capability, Class, Device, DeviceInfo, DeviceLimits, DeviceSession, MemoryKinds, QueuePair, Refusal,
};
use gantry_core::{Algorithm, Fault, SessionParams};

use crate::algorithms::AlgorithmSupport;
use crate::engine::{Engine, SLOTS};
use crate::fault::{fault_in_child, unsupported};
use crate::queue::DpdkQueue;
use crate::rsa::{self, RsaSession};
use crate::session::DpdkSession;
use crate::sys::{self, CapabilityRecord, Cryptodev, MAX_DATA_BYTES};

/// A cryptodev as a device of Gantry.
pub(crate) struct DpdkDevice {
    info: DeviceInfo,
    capability_records: Vec<CapabilityRecord>,
    engine: Arc<Engine>,
}

impl DpdkDevice {
    /// Makes a device. `name` is the vdev's name or the PCI address; `version` is the version of DPDK.
    pub(crate) fn new(name: &str, version: &str, engine: Arc<Engine>) -> Self {
        let Cryptodev { driver, is_hardware, supports_chains, .. } = &engine.cryptodev;
        let capability_records = engine.cryptodev.capabilities();
        let (class, lanes) = class_and_lanes(driver, *is_hardware);
        let supported = Algorithm::ALL.iter().filter(|algorithm| {
            !may_swap_results(driver, **algorithm)
                && AlgorithmSupport::find(**algorithm, &capability_records, *supports_chains).is_some()
        });
        let capability = |algorithm: &Algorithm| Capability {
            lanes,
            max_in_flight: SLOTS as usize,
            max_bytes: MAX_DATA_BYTES,
            synchronous: false,
            ..Capability::new(*algorithm)
        };
        let rsa = rsa::ALGORITHMS
            .iter()
            .filter(|(_, bytes)| engine.cryptodev.has_rsa(*bytes))
            .map(|(algorithm, _)| algorithm);
        let supports_lending = engine.cryptodev.supports_lending();
        let exception = if supports_lending { ", except data in regions" } else { "" };
        // Authenticated data in foreign memory is copied nevertheless (`DpdkSession::memory_to_lend`).
        let memory = MemoryKinds { regions: supports_lending, foreign: supports_lending };
        let info = DeviceInfo {
            description: format!("DPDK: {driver}; data is copied to the device and back{exception}"),
            version: version.to_owned(),
            capabilities: supported.chain(rsa).map(capability).collect(),
            limits: DeviceLimits {
                queue_pairs: engine.queue_pairs as usize,
                segments: 1,
                memory,
                ..DeviceLimits::default()
            },
            ..DeviceInfo::new(format!("dpdk:{name}"), class)
        };
        Self { info, capability_records, engine }
    }
}

/// Returns whether a PMD follows the standards in two cases that its capabilities do not mention: an HMAC of no data, and an AES-CTR
/// counter that overflows 32 bits. In both cases ipsec-mb gives wrong results without an error, and the empty message corrupts the other
/// lanes. For hardware this is unknown.
fn handles_edge_cases(driver: &str) -> bool {
    driver == "crypto_openssl"
}

/// Returns whether a PMD may give a request the result of another request. Known-answer tests do not show this. On CPUs with AVX-512,
/// ipsec-mb did so with DES until the middle of 2025 (intel/intel-ipsec-mb, issue 169); the version of ipsec-mb cannot be queried. A
/// scheduler may use the PMD of ipsec-mb.
fn may_swap_results(driver: &str, algorithm: Algorithm) -> bool {
    ["crypto_aesni_mb", "crypto_scheduler"].contains(&driver) && algorithm == Algorithm::DesEde3Cbc
}

/// Returns the class of the engine behind a PMD, and the number of requests that the PMD computes side by side.
fn class_and_lanes(driver: &str, is_hardware: bool) -> (Class, usize) {
    match driver {
        _ if is_hardware => (Class::Hardware, 1),
        // ipsec-mb computes in lanes; it has 8 of them with AVX2.
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
        if sys::is_forked_child() {
            return Err(fault_in_child().into());
        }
        if let Some((_, bytes)) = rsa::ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == params.algorithm()) {
            return Ok(Arc::new(RsaSession::new(&self.engine, params, *bytes)?));
        }
        let support =
            AlgorithmSupport::find(params.algorithm(), &self.capability_records, self.engine.cryptodev.supports_chains);
        let support = support.ok_or_else(|| unsupported("the device has no such algorithm"))?;
        let handles_edge_cases = handles_edge_cases(&self.engine.cryptodev.driver);
        Ok(Arc::new(DpdkSession::new(&self.engine, params, support, handles_edge_cases)?))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        if sys::is_forked_child() {
            return Err(fault_in_child());
        }
        let queue = DpdkQueue::new(&self.engine)?;
        Ok(queue.map(|queue| Box::new(queue) as Box<dyn QueuePair>))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_use_triple_des_of_ipsec_mb() {
        for driver in ["crypto_aesni_mb", "crypto_scheduler"] {
            assert!(
                may_swap_results(driver, Algorithm::DesEde3Cbc) && !may_swap_results(driver, Algorithm::Aes128Cbc),
                "{driver}"
            );
        }
        assert!(!may_swap_results("crypto_openssl", Algorithm::DesEde3Cbc));
    }
}
