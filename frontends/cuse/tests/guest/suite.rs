use std::path::Path;

use crate::client::Server;

gantry_lab::in_guest! {
    /// Our driver of `/dev/crypto` in front of our server: what every device must show, through both.
    ["--modules", "cuse", "--timeout", "900"]
    fn the_device_conforms() {
        let _server = Server::start();
        let mut config = gantry_runtime::Config::default();
        config.set("devices.devcrypto", "on", "the test").unwrap();
        let gantry = gantry_runtime::open(config).unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/declared/devcrypto-served.txt");
        gantry_conformance::assert_conforms(&gantry, "devcrypto:cpu", Some("software"), file);
    }
}
