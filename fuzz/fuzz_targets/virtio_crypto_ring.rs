//! Rings of guests: descriptors, indices and requests may be anything, and each chain is answered or goes back empty.

#![no_main]

use std::sync::LazyLock;

use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_vhost_user::answer_any;
use libfuzzer_sys::fuzz_target;

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());

fuzz_target!(|bytes: &[u8]| {
    let Some(([features, queue], ring)) = bytes.split_first_chunk() else { return };
    answer_any(&GANTRY, ring, u64::from(*features), queue & 1 == 1);
});
