//! The framework of the process, for interfaces that have no place for one.

use std::sync::OnceLock;

use gantry_core::Gantry;
use gantry_runtime::Config;

static SHARED: OnceLock<Gantry> = OnceLock::new();

/// Opens it at the first call. A configuration that cannot be read is as none: the program must not break by it.
pub(crate) fn shared() -> &'static Gantry {
    SHARED.get_or_init(|| {
        let configured = Config::from_env().and_then(gantry_runtime::open);
        configured.or_else(|_| gantry_runtime::open(Config::default())).unwrap_or_else(|_| Gantry::builder().build())
    })
}
