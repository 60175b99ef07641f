//! `make install`: the installed files exist, and work at their places.

mod gantry;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, text};

/// Returns the output of an installed program.
fn says(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn everything_is_installed_under_the_prefix_and_works_there() {
    let folder = Folder::new("install");
    // Put the build of this test where the script expects the release.
    let release = folder.path().join("build/release");
    fs::create_dir_all(&release).unwrap();
    symlink(env!("CARGO_BIN_EXE_gantry"), release.join("gantry")).unwrap();
    for library in ["libgantry_openssl.so", "libgantry_xfrm.so"] {
        symlink(std::env::current_exe().unwrap().with_file_name(library), release.join(library)).unwrap();
    }
    fs::write(release.join("gantry-vectors.zlib"), gantry_vectors::PACKED).unwrap();

    // scripts/c-library links the C library, and has its own test. Only its destination matters here.
    for (file, content) in [
        ("include/gantry.h", "/* header */\n"),
        ("lib/libgantry.so.0", "library\n"),
        ("lib/pkgconfig/gantry.pc", "prefix=/elsewhere\nlibdir=${prefix}/lib\n"),
    ] {
        let file = folder.path().join("build/c").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/install");
    let root = folder.path().join("root");
    let status = Command::new(script)
        .arg(&root)
        .arg("/opt/gantry")
        .env("CARGO_TARGET_DIR", folder.path().join("build"))
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "a file is outside of the prefix");
    let prefix = root.join("opt/gantry");

    assert!(says(&prefix.join("bin/gantry"), &["--version"]).starts_with("gantry "));
    let check = says(&prefix.join("bin/gantry"), &["check", "--seconds", "0", "--algorithm", "md5"]);
    let vectors = prefix.join("share/gantry/gantry-vectors.zlib");
    assert!(check.contains(&format!("with Wycheproof's vectors, from {}\n", vectors.display())), "{check}");
    let file = folder.write("abc", "abc");
    let sum = says(&prefix.join("lib/gantry/bin/sha256sum"), &[file.to_str().unwrap()]);
    assert!(sum.starts_with("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  "), "{sum}");
    // The provider is found beside the program, unless OpenSSL's folder has one.
    let configuration = says(&prefix.join("bin/gantry"), &["openssl", "config"]);
    assert!(configuration.contains("/gantry.so\n"), "{configuration}");
    let installed = prefix.join("lib/ossl-modules/gantry.so");
    let text = format!(
        "openssl_conf = init\n[init]\nproviders = providers\n[providers]\ngantry = gantry\ndefault = host\n[host]\n\
         activate = 1\n[gantry]\nmodule = {}\nactivate = 1\n",
        installed.display()
    );
    let providers = Command::new("openssl")
        .args(["list", "-providers"])
        .env("OPENSSL_CONF", folder.write("openssl.cnf", &text))
        .output()
        .unwrap();
    let providers = gantry::text(&providers.stdout);
    assert!(providers.contains("  gantry\n"), "{providers}");

    // The library for IKE daemons is found beside the program.
    let maps = says(&prefix.join("bin/gantry"), &["esp", "exec", "--", "cat", "/proc/self/maps"]);
    assert!(maps.contains("/opt/gantry/lib/gantry/libgantry_xfrm.so"), "{maps}");

    // Paths in installed files do not contain DESTDIR.
    for (file, part) in [
        ("lib/systemd/system/gantry-devcrypto.service", "ExecStart=/opt/gantry/bin/gantry devcrypto serve\n"),
        ("lib/systemd/system/gantry-serve.service", "ExecStart=/opt/gantry/bin/gantry serve --vhost-user"),
        ("lib/systemd/system/gantry-esp.service", "ExecStart=/opt/gantry/bin/gantry esp serve\n"),
        ("share/gantry/esp/strongswan.conf", "LD_PRELOAD=/opt/gantry/lib/gantry/libgantry_xfrm.so\n"),
        ("share/gantry/esp/apparmor", "\n/opt/gantry/lib/gantry/libgantry_xfrm.so mr,\n"),
    ] {
        let text = fs::read_to_string(prefix.join(file)).unwrap();
        assert!(text.contains(part) && !text.contains("@PREFIX@"), "{file}: {text}");
    }
    for file in [
        "lib/udev/rules.d/60-gantry-devcrypto.rules",
        "lib/sysusers.d/gantry-devcrypto.conf",
        "share/man/man1/gantry.1",
        "share/man/man1/gantry-openssl-config.1",
        "share/man/man5/gantry.toml.5",
        "lib/gantry/share/man/man1/sha256sum.1",
        "share/bash-completion/completions/gantry",
        "share/zsh/site-functions/_gantry",
        "share/fish/vendor_completions.d/gantry.fish",
    ] {
        assert!(fs::metadata(prefix.join(file)).unwrap().len() > 0, "{file}");
    }

    assert_eq!(fs::read_link(prefix.join("lib/libgantry.so")).unwrap(), Path::new("libgantry.so.0"));
    let pc = fs::read_to_string(prefix.join("lib/pkgconfig/gantry.pc")).unwrap();
    assert!(pc.starts_with("prefix=/opt/gantry\n"), "{pc}");

    // Each file belongs to a package, and every row of the table matches a file.
    let split = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/split");
    let packages = folder.path().join("packages");
    let status = Command::new(split).arg("deb").arg(&prefix).arg(&packages).status().unwrap();
    assert!(status.success());
    assert!(packages.join("gantry/usr/bin/gantry").is_file());
    assert!(packages.join("gantry/usr/share/gantry/gantry-vectors.zlib").is_file());
    assert!(packages.join("gantry/usr/lib/gantry/libgantry_xfrm.so").is_file());
    assert!(packages.join("libgantry-dev/usr/include/gantry.h").is_file());
    for service in ["gantry-devcrypto", "gantry-serve", "gantry-esp"] {
        let unit = packages.join(service).join(format!("usr/lib/systemd/system/{service}.service"));
        assert!(unit.is_file(), "{}", unit.display());
    }
}
