//! Errors of `gantry devcrypto serve`. A working server is tested in a guest: `frontends/cuse/tests`.

mod gantry;

use gantry::failure;

#[test]
fn a_name_must_be_valid_below_dev() {
    for name in ["", ".", "../crypto", "a/b", "a\nb", "ä"] {
        let (code, message) = failure(&["devcrypto", "serve", "--name", name]);
        assert!(code == 2 && message.contains("--name"), "{name:?}: {code} {message}");
    }
    for limit in ["--sessions", "--bytes"] {
        assert_eq!(failure(&["devcrypto", "serve", limit, "0"]).0, 2);
    }
}

#[test]
fn without_cuse_the_error_names_the_module() {
    if std::path::Path::new("/dev/cuse").exists() {
        return gantry_lab::skip("machine without /dev/cuse");
    }
    let (code, message) = failure(&["devcrypto", "serve"]);
    assert_eq!((code, message.as_str()), (1, "gantry: there is no /dev/cuse; load its module: modprobe cuse\n"));
}

#[test]
fn without_dev_crypto_the_device_is_excluded() {
    if std::path::Path::new("/dev/crypto").exists() {
        return gantry_lab::skip("machine without /dev/crypto");
    }
    let devices = gantry::json(&["devices", "--json", "--devices", "devcrypto=on"]);
    let device = gantry::find(&devices, "name", "devcrypto");
    assert_eq!(device["state"], "excluded");
    assert!(device["reason"].as_str().unwrap().starts_with("there is no /dev/crypto"), "{device}");
}
