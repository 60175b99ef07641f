//! Writes and reads the configuration space of a device with one cipher: `cargo run -p gantry-abi-virtio-crypto --example config`

use gantry_abi_virtio_crypto::constants::{HW_READY, cipher, service};
use gantry_abi_virtio_crypto::{Config, Error};

fn main() -> Result<(), Error> {
    let config = Config {
        status: HW_READY,
        max_dataqueues: 1,
        services: 1 << service::CIPHER,
        ciphers: 1 << cipher::AES_CBC,
        max_cipher_key_len: 32,
        ..Config::default()
    };
    let bytes = config.encode();
    println!("{} bytes: {:?}", bytes.len(), Config::parse(&bytes)?);
    Ok(())
}
