//! The configuration of a data path.

use std::path::PathBuf;

use gantry_abi_xfrm::Prefix;

/// The configuration of a data path.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the TUN device.
    pub device: String,
    /// MTU of the device in bytes; narrower paths are discovered.
    pub mtu: u32,
    /// UDP port of ESP.
    pub port: u16,
    /// Pairs of threads, each with a queue of the device and sockets.
    pub queues: usize,
    /// Destinations whose packets leave through the tunnel or not at all, regardless of policies, even before the daemon starts
    /// and after it has ended.
    pub protected: Vec<Prefix>,
    /// Folder of the sockets `xfrm`, for daemons, and `status`.
    pub folder: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: "gantry0".to_owned(),
            mtu: 1400,
            port: 4500,
            queues: 1,
            protected: Vec::new(),
            folder: "/run/gantry-esp".into(),
        }
    }
}
