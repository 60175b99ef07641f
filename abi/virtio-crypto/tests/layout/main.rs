//! Checks numbers and layouts against Linux's header with a C compiler.

mod numbers;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use gantry_abi_virtio_crypto::constants::*;
use gantry_abi_virtio_crypto::session::*;
use gantry_abi_virtio_crypto::{Config, Features, control, data};

/// Gives each field a value of its own, except for enumerations and `header.algo`, whose values repeat. The C compiler checks that the value
/// is at the offset of the field.
#[test]
fn fields_have_the_offsets_of_the_header() {
    let mut checks = LayoutChecks::default();
    let cipher = Cipher { algo: 0x11, key_len: 0x12, op: Direction::Decrypt };
    let chain = Chain {
        order: Order::CipherThenHash,
        hash_mode: HashMode::Auth,
        cipher,
        hash_algo: 0x13,
        hash_result_len: 0x14,
        auth_key_len: 0x15,
        aad_len: 0x16,
    };
    // `Create` ignores the service, so it is 0. Linux's structures have the padded size of `LEGACY`.
    let encode_create = |session| control::Request::Create(session).encode(0, Features::LEGACY);
    let control_request = "struct virtio_crypto_op_ctrl_req";
    checks.add(
        control_request,
        &encode_create(Session::Cipher(cipher)),
        &[
            ("header.opcode", operation::CIPHER_CREATE_SESSION),
            ("header.algo", 0x11),
            ("u.sym_create_session.u.cipher.para.algo", 0x11),
            ("u.sym_create_session.u.cipher.para.keylen", 0x12),
            ("u.sym_create_session.u.cipher.para.op", 2),
            ("u.sym_create_session.op_type", 1),
        ],
    );
    checks.add(
        control_request,
        &encode_create(Session::Chain(chain)),
        &[
            ("u.sym_create_session.u.chain.para.alg_chain_order", 2),
            ("u.sym_create_session.u.chain.para.hash_mode", 2),
            ("u.sym_create_session.u.chain.para.cipher_param.algo", 0x11),
            ("u.sym_create_session.u.chain.para.cipher_param.keylen", 0x12),
            ("u.sym_create_session.u.chain.para.cipher_param.op", 2),
            ("u.sym_create_session.u.chain.para.u.mac_param.algo", 0x13),
            ("u.sym_create_session.u.chain.para.u.mac_param.hash_result_len", 0x14),
            ("u.sym_create_session.u.chain.para.u.mac_param.auth_key_len", 0x15),
            ("u.sym_create_session.u.chain.para.aad_len", 0x16),
            ("u.sym_create_session.op_type", 2),
        ],
    );
    checks.add(
        control_request,
        &encode_create(Session::Hash(Hash { algo: 0x21, result_len: 0x22 })),
        &[
            ("u.hash_create_session.para.algo", 0x21),
            ("u.hash_create_session.para.hash_result_len", 0x22),
            ("header.opcode", operation::HASH_CREATE_SESSION),
        ],
    );
    checks.add(
        control_request,
        &encode_create(Session::Mac(Mac { algo: 0x23, result_len: 0x24, key_len: 0x25 })),
        &[
            ("u.mac_create_session.para.algo", 0x23),
            ("u.mac_create_session.para.hash_result_len", 0x24),
            ("u.mac_create_session.para.auth_key_len", 0x25),
        ],
    );
    let aead = Aead { algo: 0x31, key_len: 0x32, tag_len: 0x33, aad_len: 0x34, op: Direction::Decrypt };
    checks.add(
        control_request,
        &encode_create(Session::Aead(aead)),
        &[
            ("u.aead_create_session.para.algo", 0x31),
            ("u.aead_create_session.para.key_len", 0x32),
            ("u.aead_create_session.para.hash_result_len", 0x33),
            ("u.aead_create_session.para.aad_len", 0x34),
            ("u.aead_create_session.para.op", 2),
        ],
    );
    let rsa = PublicKey::Rsa { padding: Padding::Pkcs1, hash: 0x42 };
    checks.add(
        control_request,
        &encode_create(Session::Akcipher(Akcipher { key_type: KeyType::Private, key_len: 0x41, algorithm: rsa })),
        &[
            ("u.akcipher_create_session.para.algo", 1),
            ("u.akcipher_create_session.para.keytype", 2),
            ("u.akcipher_create_session.para.keylen", 0x41),
            ("u.akcipher_create_session.para.u.rsa.padding_algo", 1),
            ("u.akcipher_create_session.para.u.rsa.hash_algo", 0x42),
        ],
    );
    let destroy = control::Request::Destroy(0x43).encode(service::MAC, Features::LEGACY);
    checks.add(
        control_request,
        &destroy,
        &[("header.opcode", operation::MAC_DESTROY_SESSION), ("u.destroy_session.session_id", 0x43)],
    );
    checks.add(
        "struct virtio_crypto_session_input",
        &control::encode_created(0x44, gantry_abi_virtio_crypto::Status::NoSpace),
        &[("session_id", 0x44), ("status", 5)],
    );
    add_data_requests(&mut checks);
    let config = Config {
        status: 0x71,
        max_dataqueues: 0x72,
        services: 0x73,
        ciphers: 0x75_0000_0074,
        hashes: 0x76,
        macs: 0x78_0000_0077,
        aeads: 0x79,
        max_cipher_key_len: 0x7a,
        max_auth_key_len: 0x7b,
        akciphers: 0x7c,
        max_size: 0x7d,
    };
    checks.add(
        "struct virtio_crypto_config",
        &config.encode(),
        &[
            ("status", 0x71),
            ("max_dataqueues", 0x72),
            ("crypto_services", 0x73),
            ("cipher_algo_l", 0x74),
            ("cipher_algo_h", 0x75),
            ("hash_algo", 0x76),
            ("mac_algo_l", 0x77),
            ("mac_algo_h", 0x78),
            ("aead_algo", 0x79),
            ("max_cipher_key_len", 0x7a),
            ("max_auth_key_len", 0x7b),
            ("akcipher_algo", 0x7c),
            ("max_size", 0x7d),
        ],
    );
    assert_in_c(&checks.0);
}

/// Adds the checks of requests to data queues.
fn add_data_requests(checks: &mut LayoutChecks) {
    let data_request = "struct virtio_crypto_op_data_req";
    let encode = |opcode, lengths| {
        let header = data::Header { opcode, algo: 0x51, session_id: 0x52, flag: 0x53 };
        data::Request { session_parameters: None, lengths, has_stateless_layout: false }
            .encode(&header, Features::LEGACY)
    };
    checks.add(
        data_request,
        &encode(
            operation::CIPHER_DECRYPT,
            data::OperandLengths::Cipher { iv_len: 0x54, source_len: 0x55, destination_len: 0x56 },
        ),
        &[
            ("header.opcode", operation::CIPHER_DECRYPT),
            ("header.algo", 0x51),
            ("header.session_id", 0x52),
            ("header.flag", 0x53),
            ("u.sym_req.u.cipher.para.iv_len", 0x54),
            ("u.sym_req.u.cipher.para.src_data_len", 0x55),
            ("u.sym_req.u.cipher.para.dst_data_len", 0x56),
            ("u.sym_req.op_type", 1),
        ],
    );
    let chain = data::ChainLengths {
        iv_len: 0x61,
        source_len: 0x62,
        destination_len: 0x63,
        cipher_start: 0x64,
        cipher_len: 0x65,
        hash_start: 0x66,
        hash_len: 0x67,
        aad_len: 0x68,
        result_len: 0x69,
    };
    checks.add(
        data_request,
        &encode(operation::CIPHER_ENCRYPT, data::OperandLengths::Chain(chain)),
        &[
            ("u.sym_req.u.chain.para.iv_len", 0x61),
            ("u.sym_req.u.chain.para.src_data_len", 0x62),
            ("u.sym_req.u.chain.para.dst_data_len", 0x63),
            ("u.sym_req.u.chain.para.cipher_start_src_offset", 0x64),
            ("u.sym_req.u.chain.para.len_to_cipher", 0x65),
            ("u.sym_req.u.chain.para.hash_start_src_offset", 0x66),
            ("u.sym_req.u.chain.para.len_to_hash", 0x67),
            ("u.sym_req.u.chain.para.aad_len", 0x68),
            ("u.sym_req.u.chain.para.hash_result_len", 0x69),
            ("u.sym_req.op_type", 2),
        ],
    );
    checks.add(
        data_request,
        &encode(operation::HASH, data::OperandLengths::Hash { source_len: 0x6a, result_len: 0x6b }),
        &[("u.hash_req.para.src_data_len", 0x6a), ("u.hash_req.para.hash_result_len", 0x6b)],
    );
    checks.add(
        data_request,
        &encode(operation::MAC, data::OperandLengths::Mac { source_len: 0x6c, result_len: 0x6d }),
        &[("u.mac_req.para.hash.src_data_len", 0x6c), ("u.mac_req.para.hash.hash_result_len", 0x6d)],
    );
    // Linux's structure has no field for the length of the tag.
    let aead =
        data::OperandLengths::Aead { iv_len: 0x81, aad_len: 0x82, source_len: 0x83, destination_len: 0x84, tag_len: 0 };
    checks.add(
        data_request,
        &encode(operation::AEAD_DECRYPT, aead),
        &[
            ("u.aead_req.para.iv_len", 0x81),
            ("u.aead_req.para.aad_len", 0x82),
            ("u.aead_req.para.src_data_len", 0x83),
            ("u.aead_req.para.dst_data_len", 0x84),
        ],
    );
    checks.add(
        data_request,
        &encode(operation::AKCIPHER_SIGN, data::OperandLengths::Akcipher { source_len: 0x85, destination_len: 0x86 }),
        &[("u.akcipher_req.para.src_data_len", 0x85), ("u.akcipher_req.para.dst_data_len", 0x86)],
    );
}

/// Conditions in C, for `_Static_assert`.
#[derive(Default)]
struct LayoutChecks(Vec<String>);

impl LayoutChecks {
    /// Adds the conditions that `bytes` have the size of the structure `name`, and the value of each field at its offset. For a 64-bit field,
    /// `fields` has the low half only. If a value occurs at several offsets in `bytes`, one of them must be the field's.
    fn add(&mut self, name: &str, bytes: &[u8], fields: &[(&str, u32)]) {
        self.0.push(format!("sizeof({name}) == {}", bytes.len()));
        for (field, value) in fields {
            let value = value.to_le_bytes();
            let mut condition = "0".to_owned();
            for (offset, _) in bytes.windows(4).enumerate().filter(|(_, window)| *window == value) {
                write!(condition, " || __builtin_offsetof({name}, {field}) == {offset}").unwrap();
            }
            self.0.push(condition);
        }
    }
}

/// Panics unless all conditions hold in C, with Linux's header.
fn assert_in_c(conditions: &[String]) {
    let mut program = "#include <linux/virtio_crypto.h>\n".to_owned();
    for condition in conditions {
        writeln!(program, "_Static_assert({condition}, \"\");").unwrap();
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut compiler = compiler.spawn().expect("cc starts (AWS-LC needs it, too)");
    compiler.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
