//! The framework of the process, for interfaces that cannot pass one.

use std::sync::OnceLock;

use gantry_core::Gantry;
use gantry_runtime::Config;

static SHARED: OnceLock<Gantry> = OnceLock::new();

/// Returns the framework, opened by the first call. RustCrypto's traits cannot report an error of the configuration, so the default
/// configuration replaces a faulty one. If that fails too, the framework has no devices.
pub(crate) fn shared() -> &'static Gantry {
    SHARED.get_or_init(|| {
        let configured = Config::from_env().and_then(gantry_runtime::open);
        configured.or_else(|_| gantry_runtime::open(Config::default())).unwrap_or_else(|_| Gantry::builder().build())
    })
}
