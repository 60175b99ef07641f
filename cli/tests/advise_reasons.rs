//! `gantry advise` about programs and configurations that keep gantry out.

mod gantry;
mod installed;

use std::fs;
use std::path::Path;
use std::process::Command;

use gantry::{said, text};
use installed::{Installed, there};

const CBC: [&str; 9] = ["openssl", "enc", "-aes-256-cbc", "-K", "00", "-iv", "00", "-in", "plain"];

fn said_by(mut command: Command) -> (i32, String) {
    said(&command.output().unwrap())
}

#[test]
fn it_knows_a_program_of_another_tls_library() {
    if !there("wget") {
        return;
    }
    let installed = Installed::new("other");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let address = format!("https://localhost:{}/", server.port);
    let fetch = ["wget", "--no-config", "-q", "-O", "page", "--ca-certificate", "cert.pem", &address];
    let said = installed.advice(&right, &fetch);
    assert!(said.contains("wget ended with exit status: 0.\n") && said.contains("It did not load gantry.\n"), "{said}");
    assert!(said.contains("/wget: it links GnuTLS, which knows no providers.\n"), "{said}");
    // Nothing that is wrong with the configuration, and nothing about OpenSSL.
    assert!(!said.contains("activate") && !said.contains("OpenSSL") && !said.contains("may be static"), "{said}");
    assert!(fs::read_to_string(installed.0.join("page")).unwrap().contains("Cipher"), "{said}");
}

/// Programs that link libraries of these names, whatever is in them.
#[test]
fn it_knows_the_libraries_of_tls() {
    let installed = Installed::new("libraries");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
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
        let said = installed.advice(&right, &[&program]);
        assert_eq!(said.matches("it links ").count(), 1, "{said}");
        assert!(said.contains(&format!("- {program}: it links {name}")), "{said}");
    }
}

#[test]
fn it_knows_a_program_of_nss() {
    let Some(tstclnt) = ["/usr/bin/tstclnt", "/usr/lib/nss/unsupported-tools/tstclnt"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        return gantry_lab::skip("tstclnt");
    };
    let installed = Installed::new("nss");
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let server = installed.serve();
    let port = server.port.to_string();
    // Whoever signed the certificate, and no more than a handshake.
    let fetch = [tstclnt, "-4", "-h", "localhost", "-p", &port, "-o", "-D", "-Q"];
    let said = installed.advice(&right, &fetch);
    assert!(said.contains("tstclnt ended with exit status: 0.\nIt did not load gantry.\n"), "{said}");
    assert!(said.contains(&format!("- {tstclnt}: it links NSS, which knows no providers.\n")), "{said}");
}

gantry_lab::in_guest! {
    ["--modules", "tls"]
    /// OpenSSL gives the kernel a connection if its configuration says so.
    fn it_tells_of_connections_that_the_kernel_has() {
        let installed = Installed::new("kernel");
        let server = installed.serve();
        let client = format!("openssl s_client -connect 127.0.0.1:{} -tls1_2 -quiet -ign_eof", server.port);
        let fetch = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {client} 2>/dev/null | cat >&2");
        let conf = installed.configuration(&installed.module(), "CIPHERS = ALL");
        let given = "Meanwhile programs of this machine gave the kernel 2 directions of TLS connections (kTLS)";
        for (options, tells) in [("-KTLS", false), ("KTLS", true)] {
            let text = fs::read_to_string(&conf).unwrap();
            let text = text.replace("[init]\n", "[init]\nssl_conf = ssl\n");
            let kernel = installed.write("ktls.cnf", &format!("{text}[ssl]\nsystem_default = all\n[all]\nOptions = {options}\n"));
            let said = installed.advice(&kernel, &["sh", "-c", &fetch]);
            assert!(said.contains("200 ok") && said.contains("What openssl asked of OpenSSL:\n"), "{said}");
            assert_eq!(said.contains(given), tells, "{said}");
        }
    }
}

#[test]
fn it_says_why_a_program_did_not_load_the_module() {
    let installed = Installed::new("why");
    installed.write("plain", "some text");
    let enc = [&CBC[..], &["-out", "sealed"]].concat();
    let links = "/openssl: it links OpenSSL 3: does it read openssl.cnf?";
    let empty = installed.write("empty.cnf", "");
    let commented = installed.write("commented.cnf", "# default_properties = ?gantry.serves=yes\n");
    for (configuration, why) in [
        (empty.clone(), "empty.cnf does not activate it: gantry openssl config --system does.\n".to_owned()),
        (commented, "commented.cnf does not activate it: ".to_owned()),
        ("/nowhere/openssl.cnf".into(), "- /nowhere/openssl.cnf: No such file or directory".to_owned()),
        (
            installed.configuration(Path::new("/nowhere/gantry.so"), ""),
            "openssl.cnf:11: there is no /nowhere/gantry.so\n".to_owned(),
        ),
    ] {
        let said = installed.advice(&configuration, &enc);
        assert!(
            said.contains("It did not load gantry.\n") && said.contains(&why),
            "{}: {said}",
            configuration.display()
        );
        assert!(
            said.contains(links) && !said.contains("asked of OpenSSL") && !said.contains("GANTRY_DISABLE"),
            "{said}"
        );
    }
    // One that would be changed by more than gantry.
    let fips = installed.write("fips.cnf", "openssl_conf = i\n[i]\nproviders = l\n[l]\nfips = f\n[f]\nactivate = 1\n");
    let said = installed.advice(&fips, &enc);
    assert!(said.contains("fips.cnf:5: fips is activated, and gantry, ") && !said.contains("--system"), "{said}");
    // What OpenSSL itself stumbles over before it comes to gantry.
    let right = fs::read_to_string(installed.configuration(&installed.module(), "")).unwrap();
    let empty = installed
        .write("ssl.cnf", &right.replace("[init]", "[ssl]\nsystem_default = none\n[none]\n[init]\nssl_conf = ssl"));
    let said = installed.advice(&empty, &enc);
    assert!(
        said.contains("ssl.cnf: OpenSSL says 'ssl command section empty', name=system_default, value=none\n"),
        "{said}"
    );
    // Turned off, in a configuration that is right.
    let right = installed.configuration(&installed.module(), "CIPHERS = ALL");
    let output =
        installed.command(&right, &[&["advise", "--"][..], &enc].concat()).env("GANTRY_DISABLE", "1").output().unwrap();
    let off = text(&output.stderr);
    assert!(off.contains("It did not load gantry.\n- GANTRY_DISABLE is set.\n"), "{off}");
    assert!(!off.contains("does not activate it") && !off.contains("there is no"), "{off}");
    // Nothing that could be helped.
    let program = installed.compile("int main(void) { return 0; }\n", &["-static"]);
    let said = installed.advice(&right, &[&program]);
    assert!(
        said.contains(&format!("- {program}: it links no TLS library that is known here: it may be static")),
        "{said}"
    );
    // Nothing at all.
    let (code, message) = said_by(installed.command(&right, &["advise", "--", "/nowhere/program"]));
    assert!(code == 127 && message.contains("/nowhere/program: No such file or directory"), "{code} {message}");
}

/// OpenSSL tells a provider of no key that it does not ask for, so it is for these commands to read the file.
#[test]
fn a_key_that_is_misspelt_is_named() {
    let installed = Installed::new("misspelt");
    installed.write("part.cnf", "CIPHER = ALL\n");
    let conf = installed.configuration(&installed.module(), ".include part.cnf");
    let note = "- part.cnf:1: there is no key CIPHER; did you mean CIPHERS?\n";
    let encrypt = ["openssl", "enc", "-aes-128-ctr", "-K", "00", "-iv", "00", "-in", "openssl.cnf", "-out", "sealed"];
    let said = installed.advice(&conf, &encrypt);
    assert!(said.contains("What openssl asked of OpenSSL:\n") && said.contains(note), "{said}");
    // Nor does it say anything about keys that are right.
    let conf = installed.configuration(&installed.module(), "CIPHERS = AES-128-CTR");
    let said = installed.advice(&conf, &encrypt);
    assert!(!said.contains("- "), "{said}");
}

/// OpenSSL 3.0 keeps to itself what is wrong with a provider that the configuration activates.
#[test]
fn what_the_module_refuses_is_said_in_its_own_words() {
    let installed = Installed::new("refused");
    installed.write("plain", &"some text".repeat(10_000));
    let encrypt = ["openssl", "enc", "-aes-128-ctr", "-K", "00", "-iv", "00", "-in", "plain", "-out", "sealed"];
    let conf = installed.configuration(&installed.module(), "CIPHERS = aes-128-cbd");
    let why = "/openssl: CIPHERS = aes-128-cbd: there is no 'aes-128-cbd' here; it takes ALL, NONE or names with commas between\n";
    let said = installed.advice(&conf, &encrypt);
    assert!(said.contains("It did not load gantry.\n") && said.contains(why), "{said}");
    assert!(!said.contains("does it read openssl.cnf"), "{said}");
    let (code, message) = said_by(installed.command(&conf, &["advise"]));
    assert!(code == 1 && message.contains("openssl did not load gantry\n") && message.contains(why), "{message}");
    // A device that is not there: everything is the host's, and that is said.
    let conf = installed.configuration(&installed.module(), "CIPHERS = ALL\nPOLICY = pin:afalg");
    let said = installed.advice(&conf, &encrypt);
    assert!(said.contains("/openssl: everything is the host's: ") && said.contains("afalg"), "{said}");
}

#[test]
fn what_is_missing_is_said() {
    let installed = Installed::new("missing");
    let conf = installed.configuration(Path::new("/nowhere/gantry.so"), "");
    let (code, message) = said_by(installed.command(&conf, &["advise"]));
    let why = format!("gantry: openssl did not load gantry\n{}:11: there is no /nowhere/gantry.so\n", conf.display());
    assert_eq!((code, message), (1, why));
    let without = said_by({
        let mut command = installed.command(&conf, &["advise"]);
        command.env("PATH", "/nowhere");
        command
    });
    assert!(without.0 == 1 && without.1.starts_with("gantry: openssl: "), "{without:?}");
    fs::remove_file(installed.module()).unwrap();
    let (code, message) = said_by(installed.command(Path::new("/dev/null"), &["advise"]));
    assert!(code == 1 && message.starts_with("gantry: there is no gantry.so in "), "{code} {message}");
}
