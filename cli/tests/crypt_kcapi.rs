//! `gantry crypt` compared with `kcapi-enc` of libkcapi. The test needs a kernel with AF_ALG, so it runs in a guest.

use std::fs;
use std::path::Path;
use std::process::Command;

gantry_lab::in_guest! {
    ["--timeout", "200"]
    fn files_are_equal_to_those_of_kcapi_enc() {
        let folder = std::env::temp_dir().join("gantry-kcapi");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("key"), [7; 16]).unwrap();
        for length in [1000, 4096] {
            fs::write(folder.join("plain"), vec![5; length]).unwrap();
            for cipher in ["cbc(aes)", "ctr(aes)"] {
                let iv = "000102030405060708090a0b0c0d0e0f";
                kcapi(&folder, &format!("-e -c '{cipher}' --iv {iv} -i plain -o theirs"));
                // kcapi-enc pads only incomplete blocks.
                let padding = if length % 16 == 0 { "--no-padding" } else { "" };
                gantry(&folder, &format!("-e '{cipher}' --iv {iv} {padding} -i plain -o ours"));
                assert!(read(&folder, "ours") == read(&folder, "theirs"), "{cipher}, {length} bytes");
                gantry(&folder, &format!("-d '{cipher}' --iv {iv} {padding} -i theirs -o back"));
                assert!(read(&folder, "back") == vec![5; length], "{cipher}, {length} bytes, back");
            }
            let (iv, aad) = ("000102030405060708090a0b", "00112233445566778899aabbccddeeff");
            kcapi(&folder, &format!("-e -c 'gcm(aes)' --iv {iv} --aad {aad} --taglen 16 -i plain -o theirs"));
            gantry(&folder, &format!("-e 'gcm(aes)' --iv {iv} --aad {aad} -i plain -o ours"));
            let (ours, theirs) = (read(&folder, "ours"), read(&folder, "theirs"));
            assert_eq!(ours.len(), length + 16);
            // The files of kcapi-enc may begin with the associated data, which the kernel returns.
            assert!(theirs.ends_with(&ours), "gcm, {length} bytes: {} and {}", ours.len(), theirs.len());
        }
    }
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

fn gantry(folder: &Path, arguments: &str) {
    shell(folder, &format!("rm -f back; '{}' crypt {arguments} --key-fd 3 3<key", env!("CARGO_BIN_EXE_gantry")));
}

fn kcapi(folder: &Path, arguments: &str) {
    shell(folder, &format!("rm -f theirs; kcapi-enc {arguments} --keyfd 3 3<key"));
}

fn shell(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
