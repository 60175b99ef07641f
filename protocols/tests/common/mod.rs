//! The frameworks that tests run on, IP packets, and the suites of ESP.

#![allow(dead_code, reason = "each test uses some of it")]

use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};
use gantry_core::route::Failover;
use gantry_core::{Algorithm, Gantry, Kind};
use gantry_driver_lanes::{LanesDriver, Level, LevelName};
use gantry_driver_model::{FaultInjector, ModelClock, ModelDriver, Profile};
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::esp::{Integrity, Suite};

/// Returns a framework with software only.
pub(crate) fn gantry() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Returns a framework with software only, and one for each level, with lanes of at most that level and then software.
pub(crate) fn devices() -> Vec<Gantry> {
    let lanes = LevelName::ALL.into_iter().map(|name| {
        let lanes = LanesDriver::new(Level::detect_at_most(Some(name)));
        Gantry::builder().driver(&lanes).driver(&SoftwareDriver).build()
    });
    std::iter::once(gantry()).chain(lanes).collect()
}

/// Returns a card with the given faults, and a framework with the card and, if `with_software`, software after it. The card does not offer
/// whole packets of ESP. The framework verifies one in `verify` requests; 0 for none.
pub(crate) fn faulty(faults: &FaultInjector, with_software: bool, verify: u32) -> (ModelDriver, Gantry) {
    let mut profile = Profile::named("faulty").unwrap().clone();
    profile.rates.to_mut().retain(|rate| rate.algorithm.kind() != Kind::Packet);
    card(profile, faults, with_software, verify)
}

/// Returns the card of [`faulty`] that also offers whole packets of ESP, and a framework with the card, followed by software.
pub(crate) fn faulty_engine(faults: &FaultInjector, verify: u32) -> (ModelDriver, Gantry) {
    card(Profile::named("faulty").unwrap().clone(), faults, true, verify)
}

/// Returns a framework with software and an engine for whole packets of ESP. Its policy prefers the engine.
pub(crate) fn engine() -> Gantry {
    let profile = Profile::named("freescale-sec").unwrap().clone();
    let engine = ModelDriver::new(profile, reference(), ModelClock::real()).unwrap();
    let order = ["model:freescale-sec", "software"].map(str::to_owned).to_vec();
    Gantry::builder().driver(&engine).driver(&SoftwareDriver).policy(Failover { order }).build()
}

fn reference() -> Arc<dyn Device> {
    let found = SoftwareDriver.discover().into_iter().find_map(|found| match found {
        Found::Device(device) => Some(device),
        Found::Excluded { .. } => None,
    });
    found.unwrap()
}

fn card(profile: Profile, faults: &FaultInjector, with_software: bool, verify: u32) -> (ModelDriver, Gantry) {
    let card = ModelDriver::with_faults(profile, reference(), ModelClock::real(), faults.clone()).unwrap();
    let order = ["model:faulty", "software"].map(str::to_owned).to_vec();
    let builder = Gantry::builder().driver(&card);
    let builder = if with_software { builder.driver(&SoftwareDriver) } else { builder };
    let gantry = builder.policy(Failover { order }).verify(verify).build();
    gantry.device("model:faulty").unwrap().admit(Algorithm::Aes128Gcm).unwrap();
    (card, gantry)
}

/// Returns an IPv4 packet with this payload, marked as UDP.
pub(crate) fn ipv4(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    let sum = sum(&packet);
    packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
    packet.extend(payload);
    packet
}

/// Returns the sum of an IPv4 header: all ones if its checksum is right.
pub(crate) fn sum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// Returns an IPv6 packet with this payload, marked as UDP.
pub(crate) fn ipv6(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend([7; 32]);
    packet.extend(payload);
    packet
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Returns every suite, with the bytes of its cipher's key (and salt or nonce) and of its MAC's key.
pub(crate) fn suites() -> Vec<(Suite, usize, usize)> {
    let hmacs = [
        (Integrity::HmacSha1, 20),
        (Integrity::HmacSha256, 32),
        (Integrity::HmacSha256_96, 32),
        (Integrity::HmacSha384, 48),
        (Integrity::HmacSha512, 64),
    ];
    let mut suites = vec![(Suite::ChaCha20Poly1305, 36, 0)];
    for key in [16, 24, 32] {
        suites.extend([8, 12, 16].map(|icv| (Suite::AesGcm { icv }, key + 4, 0)));
        suites.extend([8, 12, 16].map(|icv| (Suite::AesCcm { icv }, key + 3, 0)));
        suites.push((Suite::AesGmac, key + 4, 0));
        suites.extend(hmacs.map(|(hmac, mac_key)| (Suite::AesCbc(hmac), key, mac_key)));
        suites.extend(hmacs.map(|(hmac, mac_key)| (Suite::AesCtr(hmac), key + 4, mac_key)));
    }
    suites.extend(hmacs.map(|(hmac, mac_key)| (Suite::Null(hmac), 0, mac_key)));
    suites
}
