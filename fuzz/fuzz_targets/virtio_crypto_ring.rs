//! Rings of guests: descriptors, indices and requests may be anything. Each chain is answered or returned empty.

#![no_main]

use std::sync::LazyLock;

use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_vhost_user::answer_arbitrary_ring;
use libfuzzer_sys::fuzz_target;

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());

fuzz_target!(|bytes: &[u8]| {
    let Some(([features, queue], ring)) = bytes.split_first_chunk() else { return };
    answer_arbitrary_ring(&GANTRY, ring, u64::from(*features), queue & 1 == 1);
});
