//! Protocols that CIOCAUTHCRYPT builds from a cipher and a MAC.

use gantry_abi_cryptodev::{COP_FLAG_AEAD_SRTP_TYPE, COP_FLAG_AEAD_TLS_TYPE, CryptAuthOp};
use gantry_core::{Algorithm, Gantry};
use libc::{EBADMSG, EFAULT, EINVAL};

use crate::answers::{CBC, CTR, DECRYPT, HMAC_SHA1, encrypt, mac};
use crate::client::{Crypto, Rng, UNMAPPED_ADDRESS, address_of, address_of_mut};

/// TLS records: MAC over header and data, padding, encryption.
pub(crate) fn check_tls_records(gantry: &Gantry, crypto: &Crypto) {
    let (key, mac_key, iv, header) = ([1; 16], [2; 20], [3; 16], [4; 13]);
    let session = crypto.cipher_and_mac((CBC, &key), (HMAC_SHA1, &mac_key)).unwrap();
    for length in [0, 1, 11, 12, 100, 1000] {
        let plain = Rng(length as u64).bytes(length);
        let mut record = plain.clone();
        record.extend(mac(gantry, Algorithm::HmacSha1, &mac_key, &[&header[..], &plain].concat()));
        let missing = 16 - record.len() % 16;
        record.extend(vec![missing as u8 - 1; missing]);
        let expected = encrypt(gantry, Algorithm::Aes128Cbc, &key, &iv, &record);

        let mut buffer = plain.clone();
        buffer.resize(expected.len(), 0);
        let data = address_of_mut(&mut buffer);
        let op = CryptAuthOp {
            session,
            flags: COP_FLAG_AEAD_TLS_TYPE,
            len: length as u32,
            auth_len: 13,
            auth_src: address_of(&header),
            src: data,
            dst: data,
            iv: address_of(&iv),
            ..CryptAuthOp::default()
        };
        assert_eq!(crypto.auth_crypt(op.clone()).unwrap().len as usize, expected.len(), "{length}");
        assert_eq!(buffer, expected, "{length}");
        let data = address_of_mut(&mut buffer);
        let open = CryptAuthOp { op: DECRYPT, len: expected.len() as u32, src: data, dst: data, ..op };
        assert_eq!(crypto.auth_crypt(open.clone()).unwrap().len as usize, length);
        assert_eq!(buffer[..length], plain);
        // Errors in the data, the MAC and the padding.
        for place in [length / 2, length, expected.len() - 1] {
            let mut wrong = record.clone();
            wrong[place] ^= 0x40;
            let mut wrong = encrypt(gantry, Algorithm::Aes128Cbc, &key, &iv, &wrong);
            let data = address_of_mut(&mut wrong);
            let open = CryptAuthOp { src: data, dst: data, ..open.clone() };
            assert_eq!(crypto.auth_crypt(open), Err(EBADMSG), "{length}, changed at {place}");
        }
    }
}

/// SRTP packets: encryption behind a header, MAC over both.
pub(crate) fn check_srtp_packets(gantry: &Gantry, crypto: &Crypto) {
    let (key, mac_key, iv) = ([1; 16], [2; 20], [3; 16]);
    let session = crypto.cipher_and_mac((CTR, &key), (HMAC_SHA1, &mac_key)).unwrap();
    let packet = Rng(1).bytes(12 + 100 + 4);
    let mut expected = packet.clone();
    expected[12..112].copy_from_slice(&encrypt(gantry, Algorithm::Aes128Ctr, &key, &iv, &packet[12..112]));
    let expected_tag = mac(gantry, Algorithm::HmacSha1, &mac_key, &expected);

    let (mut buffer, mut tag) = (packet.clone(), vec![0; 10]);
    let data = address_of_mut(&mut buffer);
    let op = CryptAuthOp {
        session,
        flags: COP_FLAG_AEAD_SRTP_TYPE,
        len: 100,
        auth_len: 116,
        auth_src: data,
        src: data + 12,
        dst: data + 12,
        tag: address_of_mut(&mut tag),
        tag_len: 10,
        iv: address_of(&iv),
        ..CryptAuthOp::default()
    };
    assert_eq!(crypto.auth_crypt(op.clone()).unwrap().len, 100);
    assert_eq!((&buffer, &tag[..]), (&expected, &expected_tag[..10]));
    let open = CryptAuthOp { op: DECRYPT, ..op.clone() };
    tag[9] ^= 1;
    assert_eq!(crypto.auth_crypt(open.clone()), Err(EBADMSG));
    assert_eq!(buffer, expected, "nothing was decrypted");
    tag[9] ^= 1;
    assert_eq!(crypto.auth_crypt(open.clone()).unwrap().len, 100);
    assert_eq!(buffer, packet);
    for (errno, wrong) in [
        (EINVAL, CryptAuthOp { auth_src: data + 13, ..op.clone() }),
        (EINVAL, CryptAuthOp { auth_src: data - 300, ..op.clone() }),
        (EINVAL, CryptAuthOp { auth_len: 0, ..op.clone() }),
        (EFAULT, CryptAuthOp { tag: UNMAPPED_ADDRESS, ..open.clone() }),
        (EINVAL, CryptAuthOp { tag_len: 101, ..open }),
        (EFAULT, CryptAuthOp { tag: UNMAPPED_ADDRESS, ..op }),
    ] {
        assert_eq!(crypto.auth_crypt(wrong.clone()), Err(errno), "{wrong:?}");
    }
}
