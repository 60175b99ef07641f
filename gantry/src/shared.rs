//! The framework of the process, for interfaces that cannot pass one.

use std::sync::OnceLock;

use gantry_core::Gantry;
use gantry_runtime::Config;

static SHARED: OnceLock<Gantry> = OnceLock::new();

/// Returns the framework, opened by the first call. Falls back to the default configuration, because RustCrypto's traits cannot report an
/// error.
pub(crate) fn shared() -> &'static Gantry {
    SHARED.get_or_init(|| {
        let configured = Config::from_env().and_then(gantry_runtime::open);
        configured.or_else(|_| gantry_runtime::open(Config::default())).unwrap_or_else(|_| Gantry::builder().build())
    })
}
