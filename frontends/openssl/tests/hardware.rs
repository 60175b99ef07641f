//! Keys in hardware, which another provider or an engine does not export: that provider or engine signs, although gantry serves every
//! known algorithm. The hardware is simulated.

mod lab;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use lab::{Lab, OFFLOADED, Server, is_installed, noise, port, text, tls};

/// Every signature with a key of gantry fails.
const UNSIGNED: &str = "CIPHERS = NONE\nSIGNATURES = ALL\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes";

/// Selects the TPM's keys, but not its digests and ciphers.
const OF_THE_TPM: &str = "-propquery '?provider=tpm2,tpm2.digest!=yes,tpm2.cipher!=yes'";

/// Signs a certificate and a digest with `key`; programs without gantry verify both.
fn signs(lab: &Lab, configuration: &Path, prepare: &str, options: &str, key: &str) -> Result<(), String> {
    let script = format!(
        "{prepare}\n\
         openssl req {options} -x509 -key {key} -subj /CN=localhost -addext subjectAltName=DNS:localhost -days 2 -out cert.pem\n\
         openssl dgst -sha256 -binary answer >digest\n\
         openssl pkeyutl {options} -sign -inkey {key} -in digest -pkeyopt digest:sha256 -out signature\n\
         export OPENSSL_CONF=/dev/null\n\
         openssl verify -CAfile cert.pem cert.pem\n\
         openssl x509 -in cert.pem -noout -pubkey >public.pem\n\
         openssl pkeyutl -verify -pubin -inkey public.pem -in digest -sigfile signature -pkeyopt digest:sha256\n"
    );
    let output = lab.sh(&script, configuration);
    if output.status.success() { Ok(()) } else { Err(text(&output)) }
}

/// Signs with a key in a file, made by the program itself.
fn signs_with_its_own_key(lab: &Lab, configuration: &Path) -> Result<(), String> {
    let script = "openssl genpkey -algorithm ED25519 -out own.pem; grep -q 'BEGIN PRIVATE' own.pem\n\
         openssl pkeyutl -sign -inkey own.pem -rawin -in answer -out signature\n";
    let output = lab.sh(script, configuration);
    if output.status.success() { Ok(()) } else { Err(text(&output)) }
}

/// Returns true if OpenSSL has a provider (`-m`) or an engine (`-e`).
fn has_module(lab: &Lab, kind: &str, name: &str) -> bool {
    let probe = format!("test -e \"$(openssl version {kind} | cut -d'\"' -f2)/{name}\"");
    let is_present = lab.sh(&probe, Path::new("/dev/null")).status.success();
    if !is_present {
        gantry_lab::skip(name);
    }
    is_present
}

/// Starts a new TPM: after a program was killed, its objects would remain in the old one, which has little room.
fn tpm(lab: &mut Lab) -> Server {
    // The second port controls the TPM's power.
    let free = |port: &u16| *port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok();
    let first = std::iter::repeat_with(port).find(free).unwrap();
    lab.variables = vec![("TPM2OPENSSL_TCTI", format!("swtpm:host=127.0.0.1,port={first}"))];
    let run = format!(
        "rm -rf tpm; mkdir tpm; exec swtpm socket --tpm2 --tpmstate dir=$PWD/tpm --flags not-need-init,startup-clear \
         --server type=tcp,port={first},bindaddr=127.0.0.1 --ctrl type=tcp,port={},bindaddr=127.0.0.1",
        first + 1
    );
    lab.serve(lab.command("sh", Path::new("/dev/null")).args(["-c", &run]), first)
}

/// Returns a configuration with gantry, as in `section`, and the provider of a TPM.
fn configuration_with_a_tpm(lab: &Lab, section: &str) -> PathBuf {
    let configuration = lab.configuration(section);
    let text = fs::read_to_string(&configuration).unwrap();
    let with_tpm = text.replace("gantry = gantry_provider\n", "gantry = gantry_provider\ntpm2 = tpm2_provider\n");
    fs::write(&configuration, with_tpm + "[tpm2_provider]\nactivate = 1\n").unwrap();
    configuration
}

#[test]
#[ignore = "long: make test-clients"]
fn keys_of_a_tpm_stay_in_it() {
    let mut lab = Lab::new("tpm");
    if !is_installed("swtpm") || !has_module(&lab, "-m", "tpm2.so") {
        return;
    }
    lab.write("answer", noise(50_000));
    let [offloaded, unsigned] = [OFFLOADED, UNSIGNED].map(|section| configuration_with_a_tpm(&lab, section));
    for (kind, version) in [
        ("EC -pkeyopt group:P-256", "-tls1_3"),
        ("RSA -pkeyopt bits:2048", "-tls1_3"),
        ("RSA -pkeyopt bits:2048", "-tls1_2"),
    ] {
        for configuration in [&offloaded, &unsigned] {
            let _running = tpm(&mut lab);
            let make = format!(
                "openssl genpkey {OF_THE_TPM} -algorithm {kind} -out key.pem 2>/dev/null; grep -q 'BEGIN TSS2' key.pem"
            );
            signs(&lab, configuration, &make, OF_THE_TPM, "key.pem")
                .and_then(|()| tls(&lab, configuration, Path::new("/dev/null"), &format!("{version} {OF_THE_TPM}")))
                .unwrap_or_else(|error| panic!("{kind}, {version}, {}: {error}", configuration.display()));
        }
    }
    // gantry still serves the keys that programs make themselves.
    let _running = tpm(&mut lab);
    signs_with_its_own_key(&lab, &offloaded).unwrap();
    assert!(signs_with_its_own_key(&lab, &unsigned).is_err(), "not used");
}

#[test]
#[ignore = "long: make test-clients"]
fn keys_of_an_engine_stay_in_it() {
    let mut lab = Lab::new("engine");
    if !is_installed("softhsm2-util") || !has_module(&lab, "-e", "pkcs11.so") {
        return;
    }
    lab.write("answer", noise(50_000));
    let tokens = format!("directories.tokendir = {}\n", lab.path("tokens").display());
    let tokens = lab.write("softhsm2.conf", tokens).display().to_string();
    let module = "/usr/lib/softhsm/libsofthsm2.so".to_owned();
    lab.variables = vec![("SOFTHSM2_CONF", tokens), ("PKCS11_MODULE_PATH", module)];
    let make = "mkdir tokens; softhsm2-util --init-token --free --label token --pin 1234 --so-pin 1234\n\
         import() { softhsm2-util --import key.pem --token token --label $1 --id $2 --pin 1234; rm key.pem; }\n\
         openssl genpkey -algorithm EC -pkeyopt group:P-256 -out key.pem; import EC 01\n\
         openssl genpkey -algorithm RSA -out key.pem; import RSA 02";
    let made = lab.sh(make, Path::new("/dev/null"));
    assert!(made.status.success(), "{}", text(&made));
    for section in [OFFLOADED, UNSIGNED] {
        let configuration = lab.configuration(section);
        for kind in ["EC", "RSA"] {
            let key = format!("'pkcs11:token=token;object={kind};type=private;pin-value=1234'");
            let signed = signs(&lab, &configuration, "", "-engine pkcs11 -keyform engine", &key);
            signed.unwrap_or_else(|error| panic!("{kind}, {section}: {error}"));
        }
        let own = signs_with_its_own_key(&lab, &configuration);
        assert_eq!(own.is_ok(), section == OFFLOADED, "{own:?}");
    }
}
