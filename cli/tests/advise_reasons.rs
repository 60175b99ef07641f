//! `gantry advise` about programs and configurations that do not use gantry.

mod gantry;
mod installed;

use std::fs;
use std::path::Path;
use std::process::Command;

use gantry::{status_and_stderr, text};
use installed::{Installed, is_installed};

const CBC: [&str; 9] = ["openssl", "enc", "-aes-256-cbc", "-K", "00", "-iv", "00", "-in", "plain"];

fn run_command(mut command: Command) -> (i32, String) {
    status_and_stderr(&command.output().unwrap())
}

#[test]
fn recognises_a_program_of_another_tls_library() {
    if !is_installed("wget") {
        return;
    }
    let installed = Installed::new("other");
    let valid = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let address = format!("https://localhost:{}/", server.port);
    let fetch = ["wget", "--no-config", "-q", "-O", "page", "--ca-certificate", "cert.pem", &address];
    let printed = installed.advice(&valid, &fetch);
    assert!(
        printed.contains("wget ended with exit status: 0.\n") && printed.contains("It did not load gantry.\n"),
        "{printed}"
    );
    assert!(printed.contains("/wget: it links GnuTLS, which knows no providers.\n"), "{printed}");
    // No complaints about the configuration, and nothing about OpenSSL.
    assert!(
        !printed.contains("activate") && !printed.contains("OpenSSL") && !printed.contains("may be static"),
        "{printed}"
    );
    assert!(fs::read_to_string(installed.0.join("page")).unwrap().contains("Cipher"), "{printed}");
}

/// The programs link dummy libraries of these names.
#[test]
fn recognises_tls_libraries() {
    let installed = Installed::new("libraries");
    let valid = installed.configuration(&installed.module(), "CIPHERS = ALL");
    for (file, name) in [
        ("libcrypto.so.1.1", "OpenSSL 1, which knows no providers."),
        ("libcrypto.so.3", "OpenSSL 3: does it read openssl.cnf?"),
        ("libcrypto.so.4", "OpenSSL 4: does it read openssl.cnf?"),
        ("libgnutls.so.30", "GnuTLS, which knows no providers."),
        ("libnss3.so", "NSS, which knows no providers."),
        ("libmbedcrypto.so.7", "Mbed TLS, which knows no providers."),
        ("libwolfssl.so.35", "wolfSSL, which knows no providers."),
    ] {
        let (file, folder) = (installed.0.join(file), installed.0.display().to_string());
        installed.write("library.c", "int nothing;\n");
        let mut library = Command::new("cc");
        library.args(["-shared", "-o"]).arg(&file).arg(installed.0.join("library.c"));
        library.arg(format!("-Wl,-soname,{}", file.file_name().unwrap().display()));
        assert!(library.status().unwrap().success());
        let with = ["-Wl,--no-as-needed", &format!("-Wl,-rpath,{folder}"), file.to_str().unwrap()];
        let program = installed.compile("int main(void) { return 0; }\n", &with);
        let printed = installed.advice(&valid, &[&program]);
        assert_eq!(printed.matches("it links ").count(), 1, "{printed}");
        assert!(printed.contains(&format!("- {program}: it links {name}")), "{printed}");
    }
}

#[test]
fn recognises_a_program_of_nss() {
    let Some(tstclnt) = ["/usr/bin/tstclnt", "/usr/lib/nss/unsupported-tools/tstclnt"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        return gantry_lab::skip("tstclnt");
    };
    let installed = Installed::new("nss");
    let valid = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let port = server.port.to_string();
    // Accepts any certificate (-o), and ends after the handshake.
    let fetch = [tstclnt, "-4", "-h", "localhost", "-p", &port, "-o", "-D", "-Q"];
    let printed = installed.advice(&valid, &fetch);
    assert!(printed.contains("tstclnt ended with exit status: 0.\nIt did not load gantry.\n"), "{printed}");
    assert!(printed.contains(&format!("- {tstclnt}: it links NSS, which knows no providers.\n")), "{printed}");
}

gantry_lab::in_guest! {
    ["--modules", "tls"]
    /// OpenSSL passes a connection to the kernel if its configuration enables that.
    fn reports_connections_passed_to_the_kernel() {
        let installed = Installed::new("kernel");
        let server = installed.serve();
        let client = format!("openssl s_client -connect 127.0.0.1:{} -tls1_2 -quiet -ign_eof", server.port);
        let fetch = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {client} 2>/dev/null | cat >&2");
        let conf = installed.configuration(&installed.module(), "CIPHERS = ALL");
        let ktls_note = "Meanwhile programs of this machine gave the kernel 2 directions of TLS connections (kTLS)";
        for (options, tells) in [("-KTLS", false), ("KTLS", true)] {
            let text = fs::read_to_string(&conf).unwrap();
            let text = text.replace("[init]\n", "[init]\nssl_conf = ssl\n");
            let kernel = installed.write("ktls.cnf", &format!("{text}[ssl]\nsystem_default = all\n[all]\nOptions = {options}\n"));
            let printed = installed.advice(&kernel, &["sh", "-c", &fetch]);
            assert!(printed.contains("200 ok") && printed.contains("OpenSSL requests of openssl:\n"), "{printed}");
            assert_eq!(printed.contains(ktls_note), tells, "{printed}");
        }
    }
}

#[test]
fn explains_why_a_program_did_not_load_the_module() {
    let installed = Installed::new("why");
    installed.write("plain", "some text");
    let enc = [&CBC[..], &["-out", "sealed"]].concat();
    let links = "/openssl: it links OpenSSL 3: does it read openssl.cnf?";
    let empty = installed.write("empty.cnf", "");
    let commented = installed.write("commented.cnf", "# default_properties = ?gantry.serves=yes\n");
    for (configuration, error) in [
        (
            empty.clone(),
            "empty.cnf does not activate gantry; to change that, run gantry openssl config --system.\n".to_owned(),
        ),
        (commented, "commented.cnf does not activate gantry; ".to_owned()),
        ("/nowhere/openssl.cnf".into(), "- /nowhere/openssl.cnf: No such file or directory".to_owned()),
        (
            installed.configuration(Path::new("/nowhere/gantry.so"), ""),
            "openssl.cnf:11: there is no /nowhere/gantry.so\n".to_owned(),
        ),
    ] {
        let printed = installed.advice(&configuration, &enc);
        assert!(
            printed.contains("It did not load gantry.\n") && printed.contains(&error),
            "{}: {printed}",
            configuration.display()
        );
        assert!(
            printed.contains(links) && !printed.contains("OpenSSL requests of") && !printed.contains("GANTRY_DISABLE"),
            "{printed}"
        );
    }
    // gantry refuses to change this configuration.
    let fips = installed.write("fips.cnf", "openssl_conf = i\n[i]\nproviders = l\n[l]\nfips = f\n[f]\nactivate = 1\n");
    let printed = installed.advice(&fips, &enc);
    assert!(
        printed.contains("fips.cnf:5: fips is activated, and could be replaced by gantry")
            && !printed.contains("--system"),
        "{printed}"
    );
    // OpenSSL finds this mistake before it loads gantry.
    let valid = fs::read_to_string(installed.configuration(&installed.module(), "")).unwrap();
    let empty = installed
        .write("ssl.cnf", &valid.replace("[init]", "[ssl]\nsystem_default = none\n[none]\n[init]\nssl_conf = ssl"));
    let printed = installed.advice(&empty, &enc);
    assert!(
        printed.contains("ssl.cnf: OpenSSL says 'ssl command section empty', name=system_default, value=none\n"),
        "{printed}"
    );
    // The configuration is correct, but gantry is disabled.
    let valid = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let output =
        installed.command(&valid, &[&["advise", "--"][..], &enc].concat()).env("GANTRY_DISABLE", "1").output().unwrap();
    let off = text(&output.stderr);
    assert!(off.contains("It did not load gantry.\n- GANTRY_DISABLE is set.\n"), "{off}");
    assert!(!off.contains("does not activate gantry") && !off.contains("there is no"), "{off}");
    // This program is static.
    let program = installed.compile("int main(void) { return 0; }\n", &["-static"]);
    let printed = installed.advice(&valid, &[&program]);
    assert!(printed.contains(&format!("- {program}: it links no known TLS library: it may be static")), "{printed}");
    // This program does not exist.
    let (code, message) = run_command(installed.command(&valid, &["advise", "--", "/nowhere/program"]));
    assert!(code == 127 && message.contains("/nowhere/program: No such file or directory"), "{code} {message}");
}

/// OpenSSL does not show a provider unknown keys, so the command itself reads the file.
#[test]
fn a_misspelt_key_is_reported() {
    let installed = Installed::new("misspelt");
    installed.write("part.cnf", "CIPHER = ALL\n");
    let conf = installed.configuration(&installed.module(), ".include part.cnf");
    let note = "- part.cnf:1: there is no key CIPHER; did you mean CIPHERS?\n";
    let encrypt = ["openssl", "enc", "-aes-128-ctr", "-K", "00", "-iv", "00", "-in", "openssl.cnf", "-out", "sealed"];
    let printed = installed.advice(&conf, &encrypt);
    assert!(printed.contains("OpenSSL requests of openssl:\n") && printed.contains(note), "{printed}");
    // Correct keys are not reported.
    let conf = installed.configuration(&installed.module(), "CIPHERS = AES-128-CTR");
    let printed = installed.advice(&conf, &encrypt);
    assert!(!printed.contains("- "), "{printed}");
}

/// OpenSSL 3.0 does not report errors of a provider that the configuration activates.
#[test]
fn errors_of_the_module_are_reported() {
    let installed = Installed::new("refused");
    installed.write("plain", &"some text".repeat(10_000));
    let encrypt = ["openssl", "enc", "-aes-128-ctr", "-K", "00", "-iv", "00", "-in", "plain", "-out", "sealed"];
    let conf = installed.configuration(&installed.module(), "CIPHERS = aes-128-cbd");
    let module_error = "/openssl: CIPHERS = aes-128-cbd: 'aes-128-cbd' is not an algorithm of this kind; did you mean AES-128-CBC? CIPHERS takes ALL, NONE or names separated by commas\n";
    let advice = installed.advice(&conf, &encrypt);
    assert!(advice.contains("It did not load gantry.\n") && advice.contains(module_error), "{advice}");
    assert!(!advice.contains("does it read openssl.cnf"), "{advice}");
    let (code, message) = run_command(installed.command(&conf, &["advise"]));
    assert!(
        code == 1 && message.contains("openssl did not load gantry\n") && message.contains(module_error),
        "{message}"
    );
    // If the device is unknown, OpenSSL itself serves all requests, and the report says so.
    let conf = installed.configuration(&installed.module(), "CIPHERS = ALL\nPOLICY = pin:afalg");
    let advice = installed.advice(&conf, &encrypt);
    assert!(advice.contains("/openssl: OpenSSL serves all requests: ") && advice.contains("afalg"), "{advice}");
}

#[test]
fn missing_files_and_programs_are_reported() {
    let installed = Installed::new("missing");
    let conf = installed.configuration(Path::new("/nowhere/gantry.so"), "");
    let (code, message) = run_command(installed.command(&conf, &["advise"]));
    let error = format!("gantry: openssl did not load gantry\n{}:11: there is no /nowhere/gantry.so\n", conf.display());
    assert_eq!((code, message), (1, error));
    let without = run_command({
        let mut command = installed.command(&conf, &["advise"]);
        command.env("PATH", "/nowhere");
        command
    });
    assert!(without.0 == 1 && without.1.starts_with("gantry: openssl: "), "{without:?}");
    fs::remove_file(installed.module()).unwrap();
    let (code, message) = run_command(installed.command(Path::new("/dev/null"), &["advise"]));
    assert!(code == 1 && message.starts_with("gantry: there is no gantry.so in "), "{code} {message}");
}
