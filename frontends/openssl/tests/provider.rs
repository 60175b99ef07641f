//! The module in programs: its links, its configuration, and that every served algorithm gives the results of the default
//! provider.

mod lab;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use lab::{Lab, OFFLOADED, everything, libcrypto, noise, openssl, text};

#[test]
fn the_module_links_no_libcrypto_and_exports_one_symbol() {
    let lab = Lab::new("links");
    let none = Path::new("/dev/null");
    let linked = text(&lab.sh("ldd gantry.so", none));
    for line in linked.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let allowed = ["linux-vdso", "libc.", "libm.", "libgcc_s.", "/lib", "ld-linux"];
        assert!(allowed.iter().any(|allowed| name.starts_with(allowed)), "{line}");
    }
    let symbols = text(&lab.sh("nm -D --defined-only gantry.so", none));
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["OSSL_provider_init"]);
    assert!(text(&lab.sh("readelf -d gantry.so", none)).contains("NODELETE"));
}

#[test]
fn every_call_gives_the_result_of_the_default_provider() {
    let lab = Lab::new("differential");
    let program = lab.compile("tests/differential.c");
    let mixed = "POLICY = size-threshold:512,host,software";
    for policy in ["", "POLICY = pin:software", "POLICY = pin:lanes", "POLICY = pin:host", mixed, "USE_SOFTDRIVERS = 0"]
    {
        let configuration = lab.configuration(&everything(policy));
        for seed in ["1", "2"] {
            let output = Command::new(&program).arg(&configuration).arg(seed).output().unwrap();
            assert_eq!(text(&output), "the same\n", "{policy}, seed {seed}");
        }
    }
}

#[test]
fn keys_signatures_and_secrets_equal_those_of_the_default_provider() {
    let lab = Lab::new("curves");
    let program = lab.compile("tests/curves.c");
    for policy in ["", "POLICY = pin:software", "POLICY = pin:host", "USE_SOFTDRIVERS = 0"] {
        let configuration = lab.configuration(&everything(policy));
        let output = Command::new(&program).arg(&configuration).output().unwrap();
        assert_eq!(text(&output), "the same\n", "{policy}");
    }
}

/// Runs `parameters.c`, compiled with `libcrypto`. The default provider and a device serve these numbers of signatures, and as many
/// verifications.
fn check_parameters(name: &str, libcrypto: &[OsString], served: [u64; 2]) {
    let lab = Lab::new(name);
    lab.collect_statistics();
    let program = lab.compile_with("tests/parameters.c", libcrypto);
    let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
    let output = command.arg(lab.configuration(OFFLOADED)).output().unwrap();
    assert_eq!(text(&output), "the same\n");
    let [default, _, device, _, default_back, _, device_back, _] = lab::counters(&lab)["ED25519"];
    assert_eq!([[default, device], [default_back, device_back]], [served; 2]);
}

#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn a_device_signs_with_the_parameters_of_tls() {
    check_parameters("parameters", &["-lcrypto".into()], [1, 2]);
}

#[test]
#[ignore = "long: make test-clients"]
fn a_device_signs_with_the_parameters_of_tls_in_4_0() {
    check_parameters("parameters-4.0", &libcrypto(&openssl("4.0"), true), [2, 3]);
}

/// OpenSSL's own code is measured as one of the devices.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn only_measurements_for_commands_are_kept_for_later_programs() {
    let mut lab = Lab::new("kept");
    let cache = lab.path("cache");
    lab.variables.push(("XDG_CACHE_HOME", cache.display().to_string()));
    let configuration = lab.configuration(&everything(""));
    let speed = "openssl speed -seconds 1 -bytes 16384 -evp aes-128-gcm 2>&1";
    assert!(lab.sh(speed, &configuration).status.success());
    assert!(!cache.exists(), "a program could be filtered by the time it has measured");
    // The software device is faster at this algorithm on every CPU.
    lab.measure(&everything(""), "ed25519");
    let folder = fs::read_dir(cache.join("gantry")).expect("costs are kept");
    let kept: Vec<String> = folder.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let costs: serde_json::Value = serde_json::from_str(&kept[0]).unwrap();
    let has_cost = |device: &str| {
        let costs = costs["costs"].as_array().unwrap();
        costs
            .iter()
            .any(|cost| cost["device"] == device && cost["algorithm"] == "ed25519" && cost["operation"] == "sign")
    };
    assert!(has_cost("host") && has_cost("software"), "{costs}");
}

/// A session keeps the state of one direction only.
#[test]
fn a_context_holds_at_most_three_kilobytes_more() {
    let lab = Lab::new("held");
    let program = lab.compile("tests/held.c");
    let (gcm, xts) = (&["AES-128-GCM", "AES-256-GCM"][..], &["AES-256-XTS"][..]);
    let all = [("pin:software", gcm), ("pin:lanes", gcm), ("pin:lanes", xts), ("pin:software", xts)];
    let some = [("size-threshold:1024,host,lanes", gcm), ("size-threshold:1024,host,lanes", xts)];
    for (policy, ciphers) in all.into_iter().chain(some) {
        let mut command = Command::new(&program);
        command.arg(lab.configuration(&everything(&format!("POLICY = {policy}")))).args(ciphers);
        let printed = text(&command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").output().unwrap());
        for line in printed.lines() {
            let extra_bytes = line.split(' ').nth(1).and_then(|bytes| bytes.parse::<i64>().ok());
            assert!(extra_bytes.is_some_and(|bytes| bytes <= 3072), "{line}");
        }
        assert_eq!(printed.lines().count(), ciphers.len(), "{printed}");
    }
    // Without a named policy, the module measures the fastest side while the program runs.
    let output = Command::new(&program).arg(lab.configuration(&everything(""))).args(gcm).args(xts).output().unwrap();
    assert_eq!(text(&output).lines().count(), gcm.len() + xts.len());
}

/// Many programs set their key again with each message. The session stays open, because the key is the same.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn setting_the_same_key_again_keeps_the_session() {
    let lab = Lab::new("again");
    let program = lab.compile("tests/again.c");
    let ciphers = ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305", "AES-256-XTS", "AES-128-CBC"];
    let configuration = lab.configuration(&everything("POLICY = pin:software"));
    let printed = text(&Command::new(&program).arg(configuration).args(ciphers).output().unwrap());
    for line in printed.lines() {
        let [_, set_once, repeated, others] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{printed}") };
        assert_eq!(set_once, repeated, "{line}");
        assert_ne!(others, "0", "{line}");
    }
    assert_eq!(printed.lines().count(), ciphers.len(), "{printed}");
}

#[test]
fn enc_reads_and_writes_the_default_providers_format() {
    let lab = Lab::new("enc");
    let none = Path::new("/dev/null");
    lab.write("plain", noise(300_000));
    let configuration = lab.configuration(&everything("POLICY = pin:software"));
    for cipher in ["aes-128-cbc", "aes-256-cbc", "aes-128-ctr", "aes-192-ecb", "des-ede3-cbc", "chacha20"] {
        let encrypt = format!("openssl enc -{cipher} -pbkdf2 -iter 1 -pass pass:x -in plain -out sealed");
        let decrypt = format!("openssl enc -d -{cipher} -pbkdf2 -iter 1 -pass pass:x -in sealed | cmp - plain");
        for (one, other) in [(&configuration, none), (&none.to_owned(), &configuration)] {
            let output = lab.sh(&encrypt, one);
            assert!(output.status.success(), "{cipher}: {}", text(&output));
            let output = lab.sh(&decrypt, other);
            assert!(output.status.success(), "{cipher}: {}", text(&output));
        }
    }
}

#[test]
fn forced_failures_prove_that_the_provider_is_used() {
    let lab = Lab::new("fail");
    lab.write("plain", noise(1000));
    let configuration = lab.configuration("FORCE_FAIL = yes");
    for command in [
        "openssl enc -aes-128-cbc -K 00 -iv 00 -in plain",
        "openssl speed -elapsed -seconds 1 -bytes 64 -evp aes-128-gcm",
    ] {
        let output = lab.sh(command, &configuration);
        let text = text(&output);
        assert!(!output.status.success() || text.contains("rror"), "{command}: {text}");
    }
    let refused = text(&lab.sh("openssl enc -aes-128-cbc -K 00 -iv 00 -in plain || true", &configuration));
    assert!(refused.contains("made to fail by FORCE_FAIL"), "{refused}");
}

#[test]
fn wrong_values_are_named_on_the_error_stack_and_nothing_is_served() {
    let lab = Lab::new("wrong");
    lab.write("plain", noise(1000));
    for (section, expected) in [
        (
            "CIPHERS = aes-128-cbd",
            "CIPHERS = aes-128-cbd: 'aes-128-cbd' is not an algorithm of this kind; did you mean AES-128-CBC? CIPHERS takes ALL, NONE or names",
        ),
        ("USE_SOFTDRIVERS = 7", "USE_SOFTDRIVERS = 7: not a value of this key; it takes 0 (hardware only), 1"),
        ("FORCE_FAIL = perhaps", "it takes yes or no"),
        ("POLICY = 100%s", "POLICY = 100%s: "),
    ] {
        let configuration = lab.configuration(section);
        // OpenSSL 3.0 shows the error if the program loads the provider, but not if the configuration activates it.
        let passive = fs::read_to_string(&configuration).unwrap().replace("gantry.so\nactivate = 1", "gantry.so");
        let passive = lab.write("passive.cnf", passive);
        let output = text(&lab.sh("openssl dgst -provider gantry -sha256 plain || true", &passive));
        assert!(output.contains(expected), "{section}: {output}");
        // Programs continue with the rest of the configuration.
        let listed = text(&lab.sh("openssl list -providers || true", &configuration));
        assert!(!listed.contains("name: Gantry"), "{listed}");
        let digested = lab.sh("openssl dgst -sha256 plain", &configuration);
        assert!(digested.status.success(), "{}", text(&digested));
    }
}

/// Without a named policy or device, algorithms that cannot gain are left to the default provider, and cost nothing extra.
#[test]
fn the_default_provider_keeps_algorithms_that_cannot_gain() {
    let lab = Lab::new("keeps");
    let all = "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL";
    let list_served = |section: &str, list: &str| {
        let listed = format!("openssl list -{list}-algorithms | grep -o '.*@ gantry' || true");
        text(&lab.sh(&listed, &lab.configuration(section)))
    };
    // XTS gains before 3.5, CBC in pipelines from then on.
    let without_policy = list_served(all, "cipher");
    assert!(["AES-256-XTS", "AES-128-CBC"].iter().any(|name| without_policy.contains(name)), "{without_policy}");
    assert!(!without_policy.contains("AES-128-CTR"), "{without_policy}");
    for named in ["POLICY = latency", "DEVICES = lanes=on", "FORCE_FAIL = yes"] {
        let served = list_served(&format!("{all}\n{named}"), "cipher");
        assert!(served.contains("AES-128-CTR"), "{named}: {served}");
    }
}

/// Neither lanes nor the software device are validated, and OpenSSL's default provider is the program's own choice.
#[test]
fn openssl_serves_everything_unless_a_validated_device_is_there() {
    let lab = Lab::new("validated");
    lab.write("plain", noise(100_000));
    lab.collect_statistics();
    let work = "openssl enc -aes-128-ctr -pbkdf2 -iter 3000 -pass pass:x -nosalt -in plain | openssl dgst -sha256";
    let expected = text(&lab.sh(work, Path::new("/dev/null")));
    let devices = |section: &str| {
        let output = lab.sh(work, &lab.configuration(&everything(section)));
        assert_eq!(text(&output), expected, "{section}");
        let pages = lab.take_statistics().pages;
        let rows = pages.iter().flat_map(|page| page.read().unwrap().rows);
        rows.filter(|row| row.device.as_deref() != Some("host")).map(|row| row.requests).sum::<u64>()
    };
    assert_ne!(devices("POLICY = latency"), 0, "a device derives the key and encrypts");
    assert_eq!(devices("REQUIRE = validated"), 0);
    let groups = "openssl list -kem-algorithms | grep -c gantry || true";
    let count_groups =
        |section: &str| text(&lab.sh(groups, &lab.configuration(section))).trim().parse::<u32>().unwrap();
    let version = text(&lab.sh("openssl version", Path::new("/dev/null")));
    let is_before_3_5 =
        ["3.0.", "3.1.", "3.2.", "3.3.", "3.4."].iter().any(|old| version.contains(&format!("OpenSSL {old}")));
    assert_eq!(count_groups("") > 0, is_before_3_5 && cfg!(feature = "software"), "{version}");
    assert_eq!(count_groups("REQUIRE = validated"), 0);
    assert_eq!(count_groups("TLS_GROUPS = no"), 0);
}

#[test]
fn gantry_disable_turns_the_provider_off() {
    let lab = Lab::new("off");
    lab.write("plain", noise(1000));
    let configuration = lab.configuration("FORCE_FAIL = yes");
    let output = lab.sh("GANTRY_DISABLE=1 openssl enc -aes-128-cbc -K 00 -iv 00 -in plain", &configuration);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_query_for_fips_finds_no_gantry_algorithm() {
    let lab = Lab::new("fips");
    let configuration = lab.configuration(&everything(""));
    let listed = |query: &str| {
        let output =
            lab.sh(&format!("openssl list -cipher-algorithms {query} | grep -c gantry || true"), &configuration);
        text(&output).trim().parse::<u32>().unwrap()
    };
    assert_ne!(listed(""), 0);
    assert_eq!(listed("-propquery fips=yes"), 0);
}

#[test]
fn programs_work_without_the_module() {
    let lab = Lab::new("missing");
    lab.write("plain", noise(1000));
    let configuration = lab.configuration("");
    fs::remove_file(lab.path("gantry.so")).unwrap();
    let python = "import hashlib, ssl; print(hashlib.sha256(b'x').hexdigest()); ssl.create_default_context()";
    let output = lab.command("python3", &configuration).args(["-c", python]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// Retired keys are ignored like unknown ones.
#[test]
fn retired_configuration_keys_are_ignored() {
    let lab = Lab::new("retired");
    lab.write("plain", noise(1000));
    let script = "openssl dgst -sha256 plain; openssl list -providers | grep -c name: || true";
    let run = |section: &str| text(&lab.sh(script, &lab.configuration(section)));
    let before = run("");
    assert_eq!(run("COALESCE_US = 200"), before, "the provider does not query retired keys");
    fs::create_dir(lab.path("gantry")).unwrap();
    lab.write("gantry/gantry.toml", "coalesce_us = 200\n");
    let (digest, providers) = before.trim_end().rsplit_once('\n').unwrap();
    let after = run("");
    assert!(after.starts_with(digest), "{after}");
    assert_eq!(after.trim_end().rsplit_once('\n').unwrap().1, (providers.parse::<u32>().unwrap() - 1).to_string());
}

/// Another user with access to the folder can guess the file's name.
#[test]
fn the_report_does_not_follow_an_existing_link() {
    let lab = Lab::new("planted");
    let measure = |before: &str| {
        let script = "export GANTRY_OPENSSL_MEASURED=$PWD/measured GANTRY_OPENSSL_MEASURE=AES-128-GCM; echo mine >other; rm -f measured";
        let _ = lab.sh(&format!("{script}; {before} openssl list -providers >/dev/null 2>&1"), &lab.configuration(""));
    };
    measure("");
    assert!(fs::read_to_string(lab.path("measured")).unwrap().contains("AES-128-GCM"));
    measure("ln -s other measured;");
    assert_eq!(fs::read_to_string(lab.path("other")).unwrap(), "mine\n");
}

#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn keys_are_generated_used_and_stored_as_by_the_default_provider() {
    let lab = Lab::new("keys");
    lab.write("plain", noise(1000));
    lab.collect_statistics();
    let none = Path::new("/dev/null");
    let only = "CIPHERS = NONE";
    let offloaded = lab.configuration(&everything("POLICY = pin:software"));
    let served = "SIGNATURES = ALL\nKEY_EXCHANGE = ALL\nPOLICY = pin:software";
    let counts = format!("{only}\n{served}");
    let (counts, failed) = (lab.configuration(&counts), lab.configuration(&format!("{only}\nFORCE_FAIL = yes")));
    let run = |script: &str, configuration: &Path| {
        let output = lab.sh(script, configuration);
        assert!(output.status.success(), "{script}: {}", text(&output));
        text(&output)
    };
    for (maker, user) in [(&*offloaded, none), (none, &*offloaded), (&*offloaded, &*offloaded)] {
        for (kind, algorithm) in [
            ("ed25519", "ed25519"),
            ("x25519", "x25519"),
            ("p256", "EC -pkeyopt ec_paramgen_curve:P-256"),
            ("rsa", "RSA"),
        ] {
            run(&format!("openssl genpkey -algorithm {algorithm} -out {kind}.pem"), maker);
            run(&format!("openssl pkey -in {kind}.pem -pubout -out {kind}.pub"), maker);
            let shown = format!("openssl pkey -in {kind}.pem -text; openssl pkey -pubin -in {kind}.pub -text");
            assert_eq!(run(&shown, maker), run(&shown, user), "{kind}");
            run(&format!("openssl pkey -in {kind}.pem -aes256 -passout pass:x -out sealed.pem"), maker);
            run(&format!("openssl pkey -in sealed.pem -passin pass:x | cmp - {kind}.pem"), user);
        }
        for kind in ["ed25519", "p256", "rsa"] {
            run(&format!("openssl req -x509 -key {kind}.pem -out cert.pem -days 2 -subj /CN=localhost"), maker);
            run("openssl verify -check_ss_sig -CAfile cert.pem cert.pem", user);
            run(&format!("openssl pkcs12 -export -inkey {kind}.pem -in cert.pem -passout pass:x -out both.p12"), maker);
            let decrypt = "openssl pkcs12 -in both.p12 -passin pass:x -nodes -nocerts | openssl pkey";
            run(&format!("{decrypt} | cmp - {kind}.pem"), user);
        }
    }
    for (name, script, column, [requests, bytes]) in [
        ("ED25519", "openssl pkeyutl -sign -inkey ed25519.pem -rawin -in plain | od", 0, [1, 1000]),
        ("X25519", "openssl pkeyutl -derive -inkey x25519.pem -peerkey x25519.pub | od", 0, [1, 32]),
        (
            "ED25519",
            "openssl pkeyutl -sign -inkey ed25519.pem -rawin -in plain -out signed; \
             openssl pkeyutl -verify -pubin -inkey ed25519.pub -rawin -in plain -sigfile signed",
            4,
            [1, 1000],
        ),
    ] {
        let before = run(script, none);
        assert_eq!(run(script, &counts), before, "{name}");
        assert_eq!(lab::counters(&lab)[name][column..][..4], [0, 0, requests, bytes], "{name}");
        let output = lab.sh(script, &failed);
        assert_ne!(text(&output), before, "{name}: not used");
    }
}

#[test]
fn nothing_is_started_before_it_is_needed_and_no_descriptor_is_kept() {
    let lab = Lab::new("lazy");
    lab.write("plain", noise(200_000));
    let configuration = lab.configuration(&everything("POLICY = pin:lanes"));
    // Threads, sockets and devices would show up here.
    let script = "import hashlib, os\n\
        derive = lambda: hashlib.pbkdf2_hmac('sha256', b'x', b'salt', 1000, 128)\n\
        before = set(os.listdir('/proc/self/fd'))\n\
        for _ in range(3): key = derive()\n\
        assert set(os.listdir('/proc/self/fd')) == before\n\
        assert len(os.listdir('/proc/self/task')) == 1\n\
        child = os.fork()\n\
        if child == 0:\n\
        \x20   os.closerange(3, 4096)\n\
        \x20   os._exit(derive() != key)\n\
        assert os.waitpid(child, 0)[1] == 0\n";
    let output = lab.command("python3", &configuration).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}
